public import Redis
import ServiceRuntime

/// How full a queue is, and how old its oldest jobs are.
public struct QueueDepth: Sendable, Equatable {
    /// The queue's name.
    public let queue: String
    /// Jobs in the pending list.
    public let pending: Int
    /// Jobs between the list and a worker.
    public let arrived: Int
    /// Jobs that wait to be leased alone.
    public let suspects: Int
    /// Jobs that wait for their retry.
    public let retry: Int
    /// Age of the oldest pending job; nil when there is none or it is a bare one, whose age nobody wrote down.
    public let oldestPending: Duration?
    /// Age of the oldest arrived job; nil as above.
    public let oldestArrived: Duration?
    /// Time until the next retry is due; negative when it is overdue.
    public let nextRetry: Duration?
    /// Stands for the oldest bare jobs: stays the same while nobody takes them; nil when the oldest are not bare.
    public let oldestBare: Int?
}

/// A registered worker.
public struct WorkerState: Sendable, Equatable {
    /// `host:pid:nonce`.
    public let worker: String
    /// Time since its last heartbeat.
    public let heartbeatAge: Duration
    /// Leases it holds.
    public let running: Int
    /// Whether its heartbeat is older than a lease, so that it will be reaped.
    public let isStale: Bool
}

extension JobQueue {
    /// Depth and age of one queue.
    ///
    /// Reads at most two payloads, and blocks Redis for no longer than a lease does.
    ///
    /// - Throws: ``RedisError``; one that ``RedisError/isWrongIncarnation`` on another Redis, whose lists are as empty as
    ///   those of a quiet queue.
    public func depth(of queue: String) async throws(RedisError) -> QueueDepth {
        try Self.check(queue: queue)
        let now = try await serverNow()
        let names = keys.queue(queue)
        let replies = await redis.send(pipeline: [
            ["LLEN", .string(names.pending)], ["LLEN", .string(names.arrived)], ["LLEN", .string(names.suspects)],
            ["ZCARD", .string(names.retry)], ["LINDEX", .string(names.pending), "-1"],
            ["LINDEX", .string(names.arrived), "-1"], ["ZRANGE", .string(names.retry), "0", "0", "WITHSCORES"],
            ["HGET", meta, "incarnation"], ["HGET", .string(keys.pulse), "setBackMs"],
        ])
        var values: [RedisValue] = []
        for reply in replies { values.append(try reply.get()) }
        isForeignRedis = values[7].text != incarnation
        guard !isForeignRedis else {
            throw RedisError(.other(code: "TELLERMETA"), "the meta hash is missing or holds another incarnation")
        }
        let setBack = values[8].text.flatMap { Int64($0) } ?? 0
        let due = values[6].elements?.last?.text.flatMap { Double($0) }
        return QueueDepth(
            queue: queue, pending: Int(values[0].int ?? 0), arrived: Int(values[1].int ?? 0),
            suspects: Int(values[2].int ?? 0), retry: Int(values[3].int ?? 0),
            oldestPending: Self.age(values[4], now), oldestArrived: Self.age(values[5], now),
            nextRetry: due.map { .milliseconds(Int64($0) - now - setBack) },
            oldestBare: Self.bare([values[4], values[5]], now))
    }

    /// Most jobs looked at from either end of those that wait.
    ///
    /// Redis copies each whole for its script, receipt and all, and does nothing else meanwhile (60 KB: 0.5 ms).
    public static let waitingSampleMax = 10

    /// The statuses of submissions whose jobs wait for their retry.
    ///
    /// Of the `sample` that are due first, and of as many that are due last; at most ``waitingSampleMax`` of each.
    public func waitingStatuses(
        in queue: String, sample: Int = waitingSampleMax
    ) async throws(RedisError) -> [[UInt8]] {
        try Self.check(queue: queue)
        let most = Int64(max(1, min(sample, Self.waitingSampleMax)))
        return try await redis.evaluate(
            JobScripts.waiting, keys: [meta, .string(keys.queue(queue).retry)],
            arguments: [incarnationArgument, .string(keys.status("")), .int(most)], idempotent: true
        ).elements?.compactMap(\.bytes) ?? []
    }

    /// All registered workers, the longest silent first.
    public func workers() async throws(RedisError) -> [WorkerState] {
        let now = try await serverNow()
        let pairs =
            try await redis.send(["ZRANGE", .string(keys.workers), "0", "-1", "WITHSCORES"], idempotent: true).elements
            ?? []
        var states: [WorkerState] = []
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let name = pairs[index].text, let beat = pairs[index + 1].text.flatMap({ Double($0) }) else {
                continue
            }
            let running = try await redis.send(["HLEN", .string(keys.prefix + "running:" + name)], idempotent: true).int
            // A beat between the two reads, or a clock set back, is no message from the future.
            let age = Duration.milliseconds(max(0, now - Int64(beat)))
            states.append(
                WorkerState(
                    worker: name, heartbeatAge: age, running: Int(running ?? 0),
                    isStale: age > configuration.leasePeriod))
        }
        return states
    }

    private static func bare(_ entries: [RedisValue], _ now: Int64) -> Int? {
        let bare = entries.filter { $0.bytes != nil && age($0, now) == nil }
        return bare.isEmpty ? nil : bare.map(\.bytes).hashValue
    }

    private static func age(_ entry: RedisValue, _ now: Int64) -> Duration? {
        guard let seen = entry.bytes.flatMap({ JobEntry($0) })?.firstSeenMs else { return nil }
        return .milliseconds(now - seen)
    }
}
