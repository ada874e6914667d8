package import Glibc
package import Redis
package import ServiceRuntime

/// How long the receipts of dead workers waited, seen from outside.
public struct OrphanTimes: Sendable {
    /// From the SIGKILL to the proof that another worker had the receipt in its hands.
    public internal(set) var recoveries: [Duration] = []
    /// The same, for receipts whose wait overlapped with an outage of Redis; counted from Redis's return if that was later.
    public internal(set) var recoveriesAfterOutage: [Duration] = []
    /// Receipts of which no such proof was seen in time.
    public internal(set) var neverSeen = 0
    /// Workers that were killed, and how many of them held receipts.
    public internal(set) var kills = 0
    /// See ``kills``.
    public internal(set) var killsWithReceipts = 0

    /// The time under which this share (0...1) of the receipts was back.
    public static func percentile(_ share: Double, of times: [Duration]) -> Duration {
        guard !times.isEmpty else { return .zero }
        let sorted = times.sorted()
        return sorted[min(sorted.count - 1, Int((share * Double(sorted.count)).rounded(.up)) - 1)]
    }
}

/// Measures when the receipts of a killed worker are worked on again.
///
/// What a dead worker held stands in its running hash until it is reaped. The proof that somebody has it in hand again is
/// that it is seen in another worker's running hash, or, when it went through faster than one looks, that its status is
/// not the same text any more: only a worker that holds the lease writes it (credited, rejected, or pending with a time
/// to come again). So the times are upper bounds, too long by one look at most. Jobs that were pushed past the API, and
/// store duties, carry no submission and are not measured.
@LoopActor
package final class OrphanWatch {
    /// What was seen so far.
    package private(set) var times = OrphanTimes()
    /// When Redis came back last; set by whoever lets it.
    package var redisReturnedAt: MonotonicInstant?
    /// Whether Redis is there, by the same.
    package var isRedisAway = false

    private static let patience: Duration = .seconds(60)
    private let redis: RedisConnection

    /// Reads through a connection of the lab's own.
    package init(_ redis: RedisConnection) { self.redis = redis }

    /// Watches until everything that the process held is in hand again; to be called right after its end.
    ///
    /// - Returns: From the end of the process until the last of its receipts was back; nil when it held none.
    @discardableResult
    package func watch(pid: pid_t, killedAt: MonotonicInstant) async -> Duration? {
        times.kills += 1
        let begin = MonotonicInstant.now
        var orphans: [String: [UInt8]?] = [:]
        while begin.elapsed < Self.patience {
            if let found = await held(by: pid) {
                orphans = found
                break
            }
            guard (try? await pause(for: .milliseconds(20))) != nil else { return nil }
        }
        guard !orphans.isEmpty else { return nil }
        times.killsWithReceipts += 1
        var sawOutage = isRedisAway
        while !orphans.isEmpty {
            guard begin.elapsed < Self.patience, (try? await pause(for: .milliseconds(25))) != nil else {
                times.neverSeen += orphans.count
                return killedAt.elapsed
            }
            if isRedisAway { sawOutage = true }
            let keys = Array(orphans.keys)
            guard let now = await statuses(keys), let leased = await leased(keys, besides: pid) else { continue }
            for (key, status) in zip(keys, now) where orphans[key] != .some(status) || leased.contains(key) {
                orphans[key] = nil
                if sawOutage || redisReturnedAt.map({ killedAt < $0 }) ?? false {
                    times.recoveriesAfterOutage.append((redisReturnedAt.map { max($0, killedAt) } ?? killedAt).elapsed)
                } else {
                    times.recoveries.append(killedAt.elapsed)
                }
            }
        }
        return killedAt.elapsed
    }

    /// The submissions in the running hashes of a process, with their statuses; nil when Redis does not answer.
    private func held(by pid: pid_t) async -> [String: [UInt8]?]? {
        guard let names = try? await redis.send(["ZRANGE", "teller:{0}:workers", "0", "-1"], idempotent: true) else {
            return nil
        }
        var submissions: Set<String> = []
        for name in (names.elements ?? []).compactMap(\.text) where name.contains(":\(pid):") {
            let key = RedisArgument.string("teller:{0}:running:" + name)
            guard let entries = try? await redis.send(["HVALS", key], idempotent: true) else { return nil }
            for entry in (entries.elements ?? []).compactMap(\.bytes) {
                // "T1 <submission> …": a bare job has no name yet, a store duty's is "-".
                let words = entry.prefix(200).split(separator: UInt8(ascii: " "), maxSplits: 2)
                guard words.count == 3, words[0].elementsEqual("T1".utf8), words[1].count > 1 else { continue }
                submissions.insert(String(decoding: words[1], as: UTF8.self))
            }
        }
        let keys = Array(submissions)
        guard let now = await statuses(keys) else { return nil }
        return Dictionary(uniqueKeysWithValues: zip(keys, now))
    }

    /// Which of the submissions stand in the running hash of a worker that is another process.
    private func leased(_ submissions: [String], besides pid: pid_t) async -> Set<String>? {
        let reply = try? await redis.evaluate(
            Self.search, keys: ["teller:{0}:workers"],
            arguments: [.string(":\(pid):")] + submissions.map { .string($0) }, idempotent: true)
        return reply?.elements.map { Set($0.compactMap(\.text)) }
    }

    private static let search = RedisScript(
        name: "search",
        text: """
            local wanted, found = {}, {}
            for i = 2, #ARGV do wanted[ARGV[i]] = true end
            for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
                if not string.find(name, ARGV[1], 1, true) then
                    for _, entry in ipairs(redis.call('HVALS', 'teller:{0}:running:' .. name)) do
                        local submission = string.match(entry, '^T1 (%S+)')
                        if submission and wanted[submission] then found[#found + 1] = submission end
                    end
                end
            end
            return found
            """)

    private func statuses(_ submissions: [String]) async -> [[UInt8]?]? {
        guard !submissions.isEmpty else { return [] }
        let keys = submissions.map { RedisArgument.string("teller:{0}:status:" + $0) }
        guard let reply = try? await redis.send(["MGET"] + keys, idempotent: true) else { return nil }
        return reply.elements?.map(\.bytes)
    }
}
