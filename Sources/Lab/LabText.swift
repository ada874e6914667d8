import Foundation
import ServiceRuntime

/// Numbers and tables as both reports show them.
enum LabText {
    static func seconds(_ duration: Duration) -> String { fixed(duration.inSeconds, 1) }

    static func milliseconds(_ duration: Duration) -> String {
        let value = duration.inSeconds * 1000
        return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0)
    }

    static func mebibytes(_ bytes: Int) -> String { fixed(Double(bytes) / 1_048_576, 1) }

    static func fixed(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }

    /// At least this wide, filled up with blanks on the right; on the left when the width is negative.
    static func padded(_ text: String, _ width: Int) -> String {
        let blanks = String(repeating: " ", count: max(0, abs(width) - text.count))
        return width < 0 ? blanks + text : text + blanks
    }

    static func write<Number: JSONWritable>(_ numbers: [String: Number], to json: inout JSONWriter) {
        for (name, number) in numbers.sorted(by: { $0.key < $1.key }) { json.member(dynamic: name, number) }
    }
}
