import Redis
import ServiceRuntime

/// Counts jobs where they must not be left: in pending, arrived, suspects, retry and running.
@LoopActor
final class QueueReader {
    private static let queues = ["apple", "google", "google-duty"]
    private static let lookEvery: Duration = .milliseconds(200)

    private let redis: RedisConnection

    init(_ redis: RedisConnection) { self.redis = redis }

    /// Returns when nothing is left, and how long that took; after `limit` what is left.
    ///
    /// A job that moves between two commands of one look can be missed, hence two empty looks in a row.
    func waitUntilEmpty(
        within limit: Duration, progress: @LoopActor (String) -> Void
    ) async throws -> (Duration?, [String: Int]) {
        let begin = MonotonicInstant.now
        var emptySince: Duration?
        while true {
            let elapsed = begin.elapsed
            let left = try await look()
            if left.isEmpty {
                if let emptySince { return (emptySince, [:]) }
                emptySince = elapsed
            } else {
                emptySince = nil
                guard elapsed < limit else { return (nil, left) }
                progress("audit: \(left.values.reduce(0, +)) jobs left, waiting")
            }
            try await pause(for: Self.lookEvery)
        }
    }

    private func look() async throws -> [String: Int] {
        let workers = try await redis.send(["ZRANGE", "teller:{0}:workers", "0", "-1"], idempotent: true)
        var places: [(name: String, command: String)] = []
        for queue in Self.queues {
            for list in ["pending", "arrived", "suspects"] { places.append(("\(list):\(queue)", "LLEN")) }
            places.append(("retry:\(queue)", "ZCARD"))
        }
        for worker in (workers.elements ?? []).compactMap(\.text) { places.append(("running:\(worker)", "HLEN")) }
        let replies = await redis.send(
            pipeline: places.map { [.string($0.command), .string("teller:{0}:\($0.name)")] })
        var left: [String: Int] = [:]
        for (place, reply) in zip(places, replies) {
            if let count = try reply.get().int, count > 0 { left[place.name] = Int(count) }
        }
        return left
    }
}

/// What the names of all keys tell.
struct Keyspace: Sendable {
    /// Everybody who has a wallet, a ledger or an entitlement.
    var players: Set<String> = []
    /// Queue keys that exist although their queue should be empty, by their names without the prefix.
    var leftoverKeys: [String: Int] = [:]
}

/// Walks through all keys once, so that nothing can hide under a name that nobody thought of.
@LoopActor
final class KeyspaceReader {
    private let redis: RedisConnection

    init(_ redis: RedisConnection) { self.redis = redis }

    func read() async throws -> Keyspace {
        var found = Keyspace()
        var queueKeys: Set<String> = []
        var cursor = "0"
        repeat {
            let parts =
                try await redis.send(
                    ["SCAN", .string(cursor), "MATCH", "teller:{*", "COUNT", "2000"], idempotent: true
                ).elements ?? []
            guard parts.count == 2, let next = parts[0].text else { throw LabError.redis("SCAN: unexpected answer") }
            for key in parts[1].elements ?? [] {
                guard let text = key.text else { continue }
                // teller:{p}:<what>:<name>; names may hold colons themselves.
                let words = text.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false)
                guard words.count == 4 else { continue }
                switch words[2] {
                case "player", "ledger", "entitlements": found.players.insert(String(words[3]))
                case "pending", "arrived", "suspects", "retry", "running": queueKeys.insert("\(words[2]):\(words[3])")
                default: break
                }
            }
            cursor = next
        } while cursor != "0"
        // Redis removes empty collections, so a key that is there is not empty; a worker that leases right now may
        // have one for a moment, though, so each is asked for its size.
        for name in queueKeys.sorted() {
            if let size = try await size(of: "teller:{0}:" + name), size > 0 { found.leftoverKeys[name] = size }
        }
        return found
    }

    private func size(of key: String) async throws -> Int? {
        let type = try await redis.send(["TYPE", .string(key)], idempotent: true).text
        let command: String
        switch type {
        case "list": command = "LLEN"
        case "zset": command = "ZCARD"
        case "hash": command = "HLEN"
        case "none": return nil
        default: return 1
        }
        return try await redis.send([.string(command), .string(key)], idempotent: true).int.map { Int($0) }
    }
}
