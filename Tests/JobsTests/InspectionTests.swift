import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct InspectionTests {
    @Test @LoopActor func depthTellsCountsAndAges() async throws {
        try await Bench.run { bench in
            let front = bench.front()
            let now = try await front.serverNow()
            let names = bench.keys.queue("apple")
            try await bench.push("T1 - 0 \(now - 60_000) 0 0\n{}")
            _ = try await front.submit("0-young")
            try await bench.raw("LPUSH", names.arrived, "{}")
            try await bench.raw("ZADD", names.retry, String(now + 30_000), "{}")
            let depth = try await front.depth(of: "apple")
            #expect(depth.pending == 2 && depth.arrived == 1 && depth.retry == 1 && depth.suspects == 0)
            #expect((60...65).contains(try #require(depth.oldestPending).inSeconds))
            #expect(depth.oldestArrived == nil)
            #expect((25...30).contains(try #require(depth.nextRetry).inSeconds))
            let empty = try await front.depth(of: "google")
            #expect(empty.pending == 0 && empty.oldestPending == nil && empty.nextRetry == nil)
        }
    }

    @Test @LoopActor func depthOfAWipedRedisIsAnErrorAndNotZero() async throws {
        try await Bench.run { bench in
            let front = bench.front()
            _ = try await front.depth(of: "apple")
            #expect(!front.isForeignRedis)
            try await bench.raw("DEL", bench.keys.meta)
            let error = await #expect(throws: RedisError.self) { try await front.depth(of: "apple") }
            #expect(error?.isWrongIncarnation == true && front.isForeignRedis)
        }
    }

    /// Redis stands still while it copies what is looked at, so there is a bound for whoever asks for more, too.
    @Test @LoopActor func fewOfManyThatWaitAreLookedAtFromBothEnds() async throws {
        try await Bench.run { bench in
            let retry = bench.keys.queue("apple").retry
            for n in 1...25 {
                try await bench.raw("ZADD", retry, "\(n)", "T1 0-\(n) 1 1 0 0\n{}")
                try await bench.raw("SET", bench.keys.status("0-\(n)"), "\(n)")
            }
            let ends = ((1...10).map(String.init) + (16...25).map(String.init))
            for sample in [10, 100] {
                let statuses = try await bench.front().waitingStatuses(in: "apple", sample: sample)
                #expect(statuses.map { text($0) ?? "" } == ends)
            }
            #expect(try await bench.front().waitingStatuses(in: "apple").count == 20)
        }
    }

    @Test @LoopActor func workersTellTheirHeartbeatAndWhatTheyHold() async throws {
        try await Bench.run { bench in
            let silent = try await bench.worker("silent")
            _ = try await silent.submitAndLease("0-a", on: bench.front())
            try await bench.die(silent)
            _ = try await bench.worker("living")
            let states = try await bench.front().workers()
            #expect(states.map(\.worker) == ["silent", "living"])
            #expect(states.map(\.isStale) == [true, false])
            #expect(states.map(\.running) == [1, 0])
        }
    }

    @Test @LoopActor func heartbeatIsNeverInTheFuture() async throws {
        try await Bench.run { bench in
            _ = try await bench.worker("early")
            _ = try await bench.raw("ZINCRBY", bench.keys.workers, "600000", "early")
            let states = try await bench.front().workers()
            #expect(states.map(\.heartbeatAge) == [.zero])
            #expect(states.map(\.isStale) == [false])
        }
    }

    @Test @LoopActor func metricsCountWhatHappens() async throws {
        try await Bench.run { bench in
            let metrics = Metrics()
            let queue = JobQueue(
                redis: bench.redis, partition: bench.partition, incarnation: bench.incarnation, worker: WorkerID("w1"),
                logger: .disabled, metrics: metrics)
            try await queue.register()
            for n in 0..<3 { _ = try await queue.submit("0-\(n)") }
            let leases = try await queue.lease(queue: "apple", max: 3)
            _ = try await queue.settle(leases[0], status: statusJSON("credited"))
            _ = try await queue.settle(leases[0], status: statusJSON("credited"))
            _ = try await queue.retry(leases[1], after: .zero, status: nil)
            let text = metrics.render()
            for line in [
                #"teller_jobs_enqueued_total{queue="apple"} 3"#, #"teller_jobs_leased_total{queue="apple"} 3"#,
                #"teller_jobs_settled_total{queue="apple"} 1"#, #"teller_jobs_fenced_total{queue="apple"} 1"#,
                #"teller_jobs_retried_total{queue="apple"} 1"#, "teller_jobs_running 1",
            ] {
                #expect(text.contains(line), "\(line)")
            }
        }
    }
}
