import ServiceRuntime

/// Resident memory of the processes of each role over a run.
public struct MemoryCourse: Sendable {
    /// One look: how far the run was (0...1), and the largest process of the role, in bytes.
    private var looks: [String: [(progress: Double, bytes: Int)]] = [:]

    /// Nothing seen yet.
    public init() {}

    /// Notes a look.
    mutating func note(_ role: String, progress: Double, bytes: Int) {
        looks[role, default: []].append((progress, bytes))
    }

    /// The largest process of a role between two points of the run.
    public func largest(_ role: String, from: Double, to: Double) -> Int? {
        looks[role]?.filter { $0.progress >= from && $0.progress <= to }.map(\.bytes).max()
    }

    private static let parts = [(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)]

    /// Lines for people: the largest process in each quarter of the run.
    var lines: [String] {
        looks.keys.sorted().map { role in
            let numbers = Self.parts.map { part in
                largest(role, from: part.0, to: part.1).map { LabText.mebibytes($0) } ?? "-"
            }
            return "memory of the largest \(role) in each quarter, MiB: " + numbers.joined(separator: "  ")
        }
    }

    func write(to json: inout JSONWriter) {
        for role in looks.keys.sorted() {
            json.member(
                dynamic: role,
                array: { json in for part in Self.parts { json.element(largest(role, from: part.0, to: part.1) ?? 0) } }
            )
        }
    }
}
