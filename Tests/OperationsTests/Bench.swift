import Jobs
import Redis
import ServiceRuntime
import TestSupport

/// An initialised Redis of its own, as a front and as a worker see it.
@LoopActor
final class Bench {
    let server: RedisServer
    let redis: RedisConnection
    let jobs: JobQueue
    let worker: JobQueue

    private init(_ server: RedisServer) async throws {
        self.server = server
        redis = RedisConnection(
            RedisConfiguration(address: try RedisAddress(url: server.url)), logger: .disabled, metrics: nil)
        redis.start()
        try await redis.ready(within: .seconds(20))
        _ = try await Meta.initialise(redis, buckets: 16, isProduction: false)
        let meta = try await Meta.read(redis)
        jobs = JobQueue(
            redis: redis, incarnation: meta.incarnation, worker: nil, logger: .disabled, metrics: nil)
        worker = JobQueue(
            redis: redis, incarnation: meta.incarnation, worker: WorkerID(), logger: .disabled, metrics: nil)
    }

    static func run(_ body: @LoopActor (Bench) async throws -> Void) async throws {
        try await RedisServer.running { server in
            let bench = try await Bench(server)
            do {
                try await body(bench)
            } catch {
                await bench.redis.stop()
                throw error
            }
            await bench.redis.stop()
        }
    }

    func enqueue(_ submission: String, queue: String = "apple") async throws {
        _ = try await jobs.enqueue(
            Array(#"{"receiptData":"s3cret-receipt"}"#.utf8), queue: queue, submission: submission,
            pendingStatus: Array(#"{"state":"pending"}"#.utf8))
    }

    /// Buries the next job of a queue.
    @discardableResult
    func bury(_ reasons: [String], queue: String = "apple") async throws -> String? {
        guard let lease = try await worker.lease(queue: queue, max: 1).first else { return nil }
        return try await worker.bury(lease, reasons: reasons, status: nil)
    }
}
