import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

/// A partition of its own on a real server, and workers made on demand.
@LoopActor
final class Bench {
    let redis: RedisConnection
    let partition: Int
    let keys: JobKeys
    let incarnation = "00000000000000000000000000000001"
    private var connections: [RedisConnection] = []
    let url: String

    private static var partitions = 0
    private static let shared = Task { try await RedisServer() }

    private init(url: String) async throws {
        Self.partitions += 1
        partition = Self.partitions
        keys = JobKeys(partition: partition)
        self.url = url
        redis = try await Self.connect(url)
        try await raw(
            "HSET", keys.meta, "incarnation", incarnation, "partitions", "1", "buckets", "64", "schema", "1",
            "production", "0", "createdAtMs", "1")
    }

    /// Runs `body` on a server of its own.
    static func runAlone(_ body: @LoopActor (Bench) async throws -> Void) async throws {
        try await RedisServer.running { server in try await run(on: server, body) }
    }

    /// Runs `body` in a fresh partition of the server that the tests of this module share, or of `server`.
    static func run(on server: RedisServer? = nil, _ body: @LoopActor (Bench) async throws -> Void) async throws {
        let url: String
        if let server { url = server.url } else { url = try await shared.value.url }
        let bench = try await Bench(url: url)
        try await TestSupport.running {
            try await body(bench)
        } stop: {
            await bench.close()
        }
    }

    private func close() async {
        for connection in connections + [redis] { await connection.stop() }
    }

    static func connect(_ url: String) async throws -> RedisConnection {
        let connection = RedisConnection(
            RedisConfiguration(address: try RedisAddress(url: url)), logger: .disabled, metrics: nil)
        connection.start()
        try await connection.ready(within: .seconds(10))
        return connection
    }

    /// A queue without a worker, as the API has it.
    func front(_ change: (inout JobQueue.Configuration) -> Void = { _ in }) -> JobQueue {
        make(nil, redis, change)
    }

    /// A worker that is registered and may judge others, because heartbeats have come for long enough.
    func worker(
        _ name: String, on connection: RedisConnection? = nil,
        _ change: (inout JobQueue.Configuration) -> Void = { _ in }
    ) async throws -> JobQueue {
        let queue = make(WorkerID(name), connection ?? redis, change)
        try await queue.register()
        try await pulse(queue)
        return queue
    }

    /// A worker of a process that has just started: nothing was sent yet.
    func newcomer(_ name: String, _ change: (inout JobQueue.Configuration) -> Void = { _ in }) -> JobQueue {
        make(WorkerID(name), redis, change)
    }

    /// Another connection to the same server.
    func connection() async throws -> RedisConnection {
        let connection = try await Self.connect(url)
        connections.append(connection)
        return connection
    }

    private func make(
        _ worker: WorkerID?, _ connection: RedisConnection, _ change: (inout JobQueue.Configuration) -> Void
    ) -> JobQueue {
        var configuration = JobQueue.Configuration()
        // A loaded machine must not look like an outage of Redis.
        configuration.leasePeriod = .seconds(60)
        change(&configuration)
        return JobQueue(
            redis: connection, partition: partition, incarnation: incarnation, worker: worker,
            blocking: (try? RedisAddress(url: url)).map { RedisConfiguration(address: $0) },
            configuration: configuration,
            logger: .disabled, metrics: nil)
    }

    /// Gives the partition the past that a lease period of heartbeats leaves, and the worker its last heartbeat.
    func pulse(_ queue: JobQueue) async throws {
        try await beforeNow(lastMs: 0, sinceMs: queue.configuration.leasePeriod.inMilliseconds * 3 / 2)
        try await queue.heartbeat()
    }

    /// Sets the pulse: its last beat and its begin, as ages.
    func beforeNow(lastMs: Int64, sinceMs: Int64) async throws {
        let now = try await serverNow()
        try await raw("HSET", keys.pulse, "lastMs", String(now - lastMs), "sinceMs", String(now - sinceMs))
    }

    /// Waits until a connection of somebody is blocked in BLMOVE: for a bench that runs alone.
    func someoneWaits() async throws {
        try await eventually("a worker waits") {
            try await raw("INFO", "clients").text?.contains("blocked_clients:0") == false
        }
    }

    func serverNow() async throws -> Int64 {
        let parts = try await raw("TIME").elements ?? []
        return (parts[0].int ?? 0) * 1000 + (parts[1].int ?? 0) / 1000
    }

    /// Makes a worker's last heartbeat ten minutes old.
    func die(_ queue: JobQueue) async throws {
        let now = try await serverNow()
        try await raw("ZADD", keys.workers, "XX", String(now - 600_000), queue.worker?.text ?? "")
    }

    /// One call of the script that a sweep is made of, for a lease of a minute, with the worker's last heartbeat or one
    /// of another age.
    func reap(by queue: JobQueue, beatAgeMs: Int64? = nil) async throws -> RedisValue {
        var beat = queue.lastBeatMs ?? 0
        if let beatAgeMs { beat = try await serverNow() - beatAgeMs }
        return try await redis.evaluate(
            JobScripts.reap,
            keys: [
                .string(keys.meta), .string(keys.workers), .string(keys.dead), .string(keys.deadIndex),
                .string(keys.pulse),
            ],
            arguments: [
                .string(incarnation), .string(queue.worker?.text ?? ""), 60_000, 30_000, .int(beat), 100, 0,
                .string(keys.prefix), 3, 3, .string(keys.settledChannel), 86400,
            ])
    }

    // MARK: - What is in Redis

    @discardableResult
    func raw(_ arguments: String...) async throws -> RedisValue {
        try await redis.send(arguments.map { .string($0) })
    }

    func count(_ key: String) async throws -> Int {
        switch try await raw("TYPE", key).text {
        case "list": Int(try await raw("LLEN", key).int ?? 0)
        case "hash": Int(try await raw("HLEN", key).int ?? 0)
        case "zset": Int(try await raw("ZCARD", key).int ?? 0)
        default: 0
        }
    }

    func pending(_ queue: String = "apple") async throws -> Int { try await count(keys.queue(queue).pending) }
    func arrived(_ queue: String = "apple") async throws -> Int { try await count(keys.queue(queue).arrived) }
    func retries(_ queue: String = "apple") async throws -> Int { try await count(keys.queue(queue).retry) }
    func suspects(_ queue: String = "apple") async throws -> Int { try await count(keys.queue(queue).suspects) }
    func dead() async throws -> Int { try await count(keys.dead) }
    func running(_ queue: JobQueue) async throws -> Int {
        guard let worker = queue.worker else { return 0 }
        return try await count(keys.running(worker))
    }

    func status(_ submission: String) async throws -> String? { try await raw("GET", keys.status(submission)).text }

    /// Makes a status as old as if it had been written `ms` ago.
    func age(_ submission: String, by ms: Int) async throws {
        try await raw("PEXPIRE", keys.status(submission), String(86_400_000 - ms))
    }

    /// Pushes an entry as another program, or an earlier life of a job, would have left it.
    func push(_ entry: String, queue: String = "apple") async throws {
        try await raw("LPUSH", keys.queue(queue).pending, entry)
    }
}

/// A status in a state.
func statusJSON(_ state: String, _ rest: String = #","player":"p1""#) -> [UInt8] {
    Array(#"{"state":"\#(state)"\#(rest)}"#.utf8)
}

func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

extension JobQueue {
    /// Enqueues `payload` to apple as submission `id`.
    func submit(_ id: String, _ payload: String = #"{"n":1}"#, queue: String = "apple") async throws -> EnqueueOutcome {
        try await enqueue(Array(payload.utf8), queue: queue, submission: id, pendingStatus: statusJSON("pending"))
    }

    /// Submits and leases one job.
    func submitAndLease(_ id: String, on front: JobQueue) async throws -> Lease {
        _ = try await front.submit(id)
        return try #require(try await lease(queue: "apple", max: 1).first)
    }
}

/// Runs `body` for all items at once, and returns the answers in their order.
@LoopActor
func together<Item: Sendable, Answer: Sendable>(
    _ items: some Sequence<Item>, _ body: @escaping @LoopActor @Sendable (Item) async throws -> Answer
) async throws -> [Answer] {
    let tasks = items.map { item in Task { @LoopActor in try await body(item) } }
    var answers: [Answer] = []
    for task in tasks { answers.append(try await task.value) }
    return answers
}
