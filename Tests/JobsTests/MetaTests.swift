import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct MetaTests {
    @Test @LoopActor func isWrittenOnceAndNeverAgain() async throws {
        try await RedisServer.running { server in
            let redis = try await Bench.connect(server.url)
            await #expect(throws: Meta.Problem.missing) { try await Meta.read(redis) }
            // A program may have pushed before anybody initialised.
            _ = try await redis.send(["LPUSH", "teller:{0}:pending:apple", "{}"])
            guard case .written(let meta) = try await Meta.initialise(redis, isProduction: true) else {
                Issue.record("not written")
                return
            }
            #expect(meta.incarnation.utf8.count == 32 && meta.partitions == 1 && meta.buckets == 65_536)
            #expect(meta.isProduction && meta.schema == 1)
            #expect(try await Meta.initialise(redis, buckets: 7, isProduction: false) == .alreadyThere(meta))
            #expect(try await Meta.read(redis) == meta)
            await redis.stop()
        }
    }

    @Test @LoopActor func lostMetaIsNotReplacedByANewOne() async throws {
        try await RedisServer.running { server in
            let redis = try await Bench.connect(server.url)
            _ = try await redis.send(["HSET", "teller:claims:17", "a", "b"])
            await #expect(throws: Meta.Problem.keysWithoutMeta(example: "teller:claims:17")) {
                try await Meta.initialise(redis, isProduction: false)
            }
            await redis.stop()
        }
    }

    @Test(arguments: ["incarnation", "partitions", "buckets", "schema", "production", "createdAtMs"])
    @LoopActor func missingFieldIsNamed(_ field: String) async throws {
        try await Bench.run { bench in
            try await bench.raw("HDEL", bench.keys.meta, field)
            await #expect(throws: Meta.Problem.invalid(field: field)) {
                try await Meta.read(bench.redis, partition: bench.partition)
            }
        }
    }

    @Test @LoopActor func unknownSchemaIsRefused() async throws {
        try await Bench.run { bench in
            try await bench.raw("HSET", bench.keys.meta, "schema", "2")
            await #expect(throws: Meta.Problem.unknownSchema(2)) {
                try await Meta.read(bench.redis, partition: bench.partition)
            }
        }
    }

    enum Damage: String, Sendable, CaseIterable { case wiped, otherIncarnation }

    /// Every script refuses a Redis that is not the one this process was started for, and changes nothing.
    @Test(arguments: Damage.allCases) @LoopActor func everyScriptRefusesAnotherRedis(_ damage: Damage) async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 1...6 { _ = try await bench.front().submit("0-\(n)") }
            let leases = try await worker.lease(queue: "apple", max: 5)
            let dead = try #require(try await worker.bury(leases[4], reasons: [], status: nil))
            switch damage {
            case .wiped: try await bench.raw("DEL", bench.keys.meta)
            case .otherIncarnation: try await bench.raw("HSET", bench.keys.meta, "incarnation", "another")
            }
            let before = try await snapshot(bench)
            let calls: [(String, @LoopActor () async throws -> Void)] = [
                ("enqueue", { _ = try await worker.submit("0-new") }),
                ("register", { try await worker.register() }),
                ("heartbeat", { try await worker.heartbeat() }),
                ("lease", { _ = try await worker.lease(queue: "apple", max: 1) }),
                ("settle", { _ = try await worker.settle(leases[0], status: statusJSON("credited")) }),
                ("retry", { _ = try await worker.retry(leases[1], after: .zero, status: nil) }),
                ("bury", { _ = try await worker.bury(leases[2], reasons: [], status: nil) }),
                ("release", { _ = try await worker.release(leases[3]) }),
                ("sweep", { try await self.sweepAsAfterAHeartbeat(worker) }),
                ("leave", { _ = try await worker.leave() }),
                ("replay", { _ = try await worker.replay(dead) }),
            ]
            for (name, call) in calls {
                do {
                    try await call()
                    Issue.record("\(name) went on")
                } catch let error as RedisError {
                    #expect(error.isWrongIncarnation, "\(name): \(error)")
                    #expect(!error.isRetryable)
                }
            }
            #expect(try await snapshot(bench) == before)
        }
    }

    @LoopActor private func sweepAsAfterAHeartbeat(_ worker: JobQueue) async throws {
        worker.lastBeatMs = 5000
        _ = try await worker.sweep()
    }

    @LoopActor private func snapshot(_ bench: Bench) async throws -> [RedisValue] {
        let names = bench.keys.queue("apple")
        let running = bench.keys.prefix + "running:w1"
        return [
            try await bench.raw("LRANGE", names.pending, "0", "-1"), try await bench.raw("HLEN", running),
            try await bench.raw("ZRANGE", bench.keys.workers, "0", "-1", "WITHSCORES"),
            try await bench.raw("HLEN", bench.keys.dead), try await bench.raw("EXISTS", names.retry),
            try await bench.raw("EXISTS", bench.keys.status("0-new")),
            try await bench.raw("EXISTS", bench.keys.status("0-x")),
            try await bench.raw("GET", bench.keys.status("0-1")),
        ]
    }
}
