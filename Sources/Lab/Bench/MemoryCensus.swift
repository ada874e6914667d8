import Redis
import ServiceRuntime

/// What every key weighs by Redis's own account, added up by what it is for.
struct MemoryCensus: Sendable {
    /// `used_memory`: also what no key owns, such as the key table itself and buffers.
    var used = 0
    var bytes: [String: Int] = [:]

    private static let pageSize = 1000

    @LoopActor
    static func take(_ redis: RedisConnection) async throws -> MemoryCensus {
        var census = MemoryCensus()
        var cursor = "0"
        repeat {
            let page = try await redis.send(
                ["SCAN", .string(cursor), "MATCH", "teller:*", "COUNT", .int(Int64(pageSize))], idempotent: true)
            guard let parts = page.elements, parts.count == 2, let next = parts[0].text else {
                throw LabError.redis("SCAN: unexpected answer")
            }
            let keys = (parts[1].elements ?? []).compactMap(\.text)
            // SAMPLES 0: every element is weighed, none is estimated.
            let weights = await redis.send(
                pipeline: keys.map { ["MEMORY", "USAGE", .string($0), "SAMPLES", "0"] })
            for (key, weight) in zip(keys, weights) {
                census.bytes[kind(of: key), default: 0] += Int(try weight.get().int ?? 0)
            }
            cursor = next
        } while cursor != "0"
        let memory = try await redis.send(["INFO", "memory"], idempotent: true).text ?? ""
        let line = memory.split(whereSeparator: \.isNewline).first { $0.hasPrefix("used_memory:") }
        census.used = line.flatMap { Int($0.dropFirst("used_memory:".count)) } ?? 0
        return census
    }

    private static func kind(of key: String) -> String {
        if key.hasPrefix("teller:claims:") { return "claim" }
        let words = key.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false)
        switch words.count > 2 ? words[2] : "" {
        case "player": return "markAndBalance"
        case "ledger": return "entry"
        case "status": return "statusFor24Hours"
        default: return "other"
        }
    }
}

/// Bytes of Redis's memory per purchase.
public struct MemoryPrice: Sendable {
    /// Growth of `used_memory`.
    public let all: Double
    /// Growth of the keys, by what they are for.
    public let parts: [String: Double]
    /// Purchases that were credited in between.
    public let purchases: Int

    init(from before: MemoryCensus, to after: MemoryCensus, purchases: Int) {
        self.purchases = purchases
        let count = Double(max(purchases, 1))
        all = Double(after.used - before.used) / count
        parts = after.bytes.merging(before.bytes) { $0 - $1 }.mapValues { Double($0) / count }
    }

    var lines: [String] {
        let words = parts.sorted { $0.value > $1.value }.map { "\($0.key) \(LabText.fixed($0.value, 1))" }
        return [
            "memory per purchase, of \(purchases): " + words.joined(separator: ", ")
                + "; used_memory grew by \(LabText.fixed(all, 1)) bytes each"
        ]
    }

    func write(to json: inout JSONWriter) {
        json.member("purchases", purchases)
        json.member("usedMemory", all)
        for (name, value) in parts.sorted(by: { $0.key < $1.key }) { json.member(dynamic: name, value) }
    }
}
