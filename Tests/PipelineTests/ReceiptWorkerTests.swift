import Commerce
import Jobs
import Ledger
import ReceiptWorker
import Redis
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing
import Verification

/// Start, stop and failure of a worker.
@LoopActor
@Suite(.serialized) struct ReceiptWorkerTests {
    @Test func idleWorkerStopsAtOnce() async throws {
        try await Works.run { works in
            let began = MonotonicInstant.now
            #expect(await works.stopWorker(within: .seconds(20)) == ReceiptWorker.StopReport())
            #expect(began.elapsed < .seconds(15))
            let left = try await works.jobs.workers()
            #expect(left.isEmpty)
        }
    }

    @Test func idleWorkerAsksForWorkOnceForEachPush() async throws {
        try await Works.run { works in
            for _ in 1...20 { #expect(try await works.submit(try works.buy(.apple)).status == 200) }
            let info = try await works.redis.send(["INFO", "commandstats"]).text ?? ""
            func calls(_ command: String) -> Int {
                info.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_\(command):calls=") }
                    .flatMap { Int($0.dropFirst(command.utf8.count + 15).prefix { $0 != "," }) } ?? 0
            }
            // Each lease counts the retries that are due once, and follows a wait (three lanes, the last wait under
            // way).
            #expect(calls("blmove") >= 20)
            #expect(calls("zcount") <= calls("blmove") + 6)
        }
    }

    @Test func stoppingWorkerFinishesWhatItHolds() async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(latency: .seconds(3)), for: "apple")
            let orders = try (0..<5).map { _ in Works.order(try works.buy(.apple).receipt) }
            for order in orders { try await works.push(order, to: "apple") }
            try await eventually("all to be held") { works.workers.first?.inFlight == 5 }
            let report = await works.stopWorker(within: .seconds(20))
            #expect(report.finished == 5 && report.returned == 0 && report.left == 0)
            #expect(try await works.gems() == 2750)
        }
    }

    @Test func stoppingWorkerGivesBackWhatItCannotFinish() async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang)]), for: "apple")
            for _ in 1...5 { try await works.push(Works.order(try works.buy(.apple).receipt), to: "apple") }
            try await eventually("all to be held") { works.workers.first?.inFlight == 5 }
            let report = await works.stopWorker(within: .milliseconds(100))
            #expect(report.finished == 0 && report.returned == 5 && report.left == 0)
            #expect(try await works.jobs.depth(of: "apple").pending == 5)
            #expect(try await works.jobs.workers().isEmpty)
            works.emulator.setFaults(FaultKnobs(), for: "apple")
            try await works.addWorker()
            try await eventually("the next one to credit them") { try await works.gems() == 2750 }
            #expect(try await works.entries() == 5)
        }
    }

    @Test func leaseThatIsFoundDuringTheStopIsGivenBackAtOnce() async throws {
        var plan = Works.Plan()
        plan.verification = { $0.limits.callDeadline = .seconds(10) }
        try await Works.run(plan) { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang)]), for: "apple")
            try await works.push(Works.order(try works.buy(.apple).receipt), to: "apple")
            try await eventually("one to be held") { works.workers.first?.inFlight == 1 }
            let stopping = Task { @LoopActor @Sendable in await works.stopWorker(within: .seconds(30)) }
            try await eventually("it is stopping") { works.workers.isEmpty }
            // As a lease call leaves it whose reply was lost.
            let name = try #require(try await works.jobs.workers().first?.worker)
            let job = Works.order(try works.buy(.apple).receipt)
            _ = try await works.redis.send(
                ["HSET", .string("teller:{0}:running:\(name)"), "apple:9000", .string(job)])
            try await eventually("it is back on the list") { try await works.jobs.depth(of: "apple").pending == 1 }
            works.emulator.setFaults(FaultKnobs(), for: "apple")
            try await works.addWorker()
            try await eventually("another worker to credit it") { try await works.gems() >= 550 }
            let report = await stopping.value
            // Twice when the lane's last wait was still under way and leased what had just been given back.
            #expect((1...2).contains(report.returned) && report.finished == 1 && report.left == 0)
        }
    }

    @Test func suspectThatHangsAtItsStoreDoesNotKeepTheNextWaiting() async throws {
        var plan = Works.Plan()
        plan.verification = { $0.limits.callDeadline = .seconds(600) }
        plan.aloneMax = .milliseconds(300)
        try await Works.run(plan) { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang, count: 1)]), for: "apple")
            for _ in 1...3 {
                let job = Works.order(try works.buy(.apple).receipt)
                _ = try await works.redis.send(
                    ["LPUSH", "teller:{0}:suspects:apple", .string("T1 - 0 17 3 0\n" + job)])
            }
            try await eventually("all to be credited") { try await works.gems() == 1650 }
            #expect(try await works.totals() == [1650, 3, 3])
        }
    }

    @Test func stopWithoutRedisIsBoundedAndSaysWhatItLeft() async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang)]), for: "apple")
            for _ in 1...20 { try await works.push(Works.order(try works.buy(.apple).receipt), to: "apple") }
            try await eventually("all to be held") { works.workers.first?.inFlight == 20 }
            await works.server.kill()
            let began = MonotonicInstant.now
            let report = await works.stopWorker(within: .milliseconds(100))
            #expect(report.left == 20 && report.finished == 0 && report.returned == 0)
            #expect(began.elapsed < .seconds(15))
            // Back in Redis, they are somebody else's.
            works.emulator.setFaults(FaultKnobs(), for: "apple")
            try await works.server.start()
            try await works.addWorker()
            try await eventually(within: .seconds(40), "another worker to credit them") {
                try await works.gems() == 11_000
            }
        }
    }

    @Test func workerOfAWipedRedisFailsInsteadOfStartingAfresh() async throws {
        try await Works.run { works in
            _ = try await works.redis.send(["FLUSHALL"])
            let job = Works.order(try works.buy(.apple).receipt)
            try await works.push(job, to: "apple")
            try await eventually(within: .seconds(20), "the worker to fail") { works.failures == 1 }
            #expect(works.workers.first?.failure != nil)
            var jobs: Int64 = 0
            for list in ["pending", "arrived"] {
                jobs += try await works.redis.send(["LLEN", "teller:{0}:\(list):apple"]).int ?? 0
            }
            #expect(jobs == 1)
        }
    }

    @Test func redisRestartInTheMiddleLosesAndDoublesNothing() async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(latency: .milliseconds(50), jitter: .milliseconds(200)), for: "*")
            let orders = try (0..<60).map { _ in Works.order(try works.buy(.apple).receipt) }
            for order in orders { try await works.push(order, to: "apple") }
            try await eventually("some to be credited") { try await works.gems() > 0 }
            try await works.server.restart()
            try await works.redis.ready(within: .seconds(20))
            try await eventually(within: .seconds(60), "all to be credited") { try await works.gems() == 33_000 }
            #expect(try await works.totals() == [33_000, 60, 60])
        }
    }
}

@Suite struct RetryScheduleTests {
    @Test func delaysDoubleUpToTheLongest() {
        let schedule = RetrySchedule()
        let bounds = (1...14).map { schedule.delay(afterAttempts: $0, atLeast: nil, random: 1) }
        #expect(bounds.prefix(5) == [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16)])
        #expect(bounds.suffix(3) == [.seconds(900), .seconds(900), .seconds(900)])
        #expect(schedule.delay(afterAttempts: 1_000_000, atLeast: nil, random: 1) == .seconds(900))
    }

    @Test(arguments: [0, 0.25, 0.5, 0.999]) func jitterIsFull(random: Double) {
        let delay = RetrySchedule().delay(afterAttempts: 5, atLeast: nil, random: random)
        #expect(abs(delay.inSeconds - 16 * random) < 0.001)
    }

    @Test(arguments: [0, 0.5, 0.999]) func whatTheStoreAskedForIsNeverUndercut(random: Double) {
        let delay = RetrySchedule().delay(afterAttempts: 1, atLeast: .seconds(60), random: random)
        #expect(delay >= .seconds(60) && delay <= .seconds(66))
        #expect(RetrySchedule().delay(afterAttempts: 20, atLeast: .seconds(60), random: random) >= .seconds(60))
    }
}
