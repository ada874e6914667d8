import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct ReapTests {
    @Test @LoopActor func deadWorkersJobsGoToTheFrontWithACrashOnTheirAccount() async throws {
        try await Bench.run { bench in
            let victim = try await bench.worker("victim")
            for n in 1...3 { _ = try await bench.front().submit("0-\(n)") }
            _ = try await victim.lease(queue: "apple", max: 2)
            try await bench.age("0-1", by: 50_000)
            try await bench.die(victim)
            let other = try await bench.worker("other")
            let report = try await other.sweep()
            #expect(report.toPending == 2 && report.workersRemoved == 1 && report.failed == 0)
            let again = try await other.lease(queue: "apple", max: 3)
            #expect(again.last?.submission == "0-3")
            #expect(again.map(\.crashes).sorted() == [0, 1, 1])
            // Refreshed: whoever submits again waits for it.
            #expect(try await bench.front().submit("0-1") == .alreadyPending(status: statusJSON("pending")))
            #expect(try #require(try await bench.raw("TTL", bench.keys.status("0-1")).int) > 86_300)
            #expect(try await other.sweep() == ReapReport())
        }
    }

    @Test @LoopActor func livingWorkersAreLeftAlone() async throws {
        try await Bench.run { bench in
            let living = try await bench.worker("living")
            _ = try await living.submitAndLease("0-a", on: bench.front())
            let other = try await bench.worker("other")
            #expect(try await other.sweep() == ReapReport())
            #expect(try await bench.running(living) == 1)
        }
    }

    @Test @LoopActor func oneCallMovesAtMostAHundredAndTheNameStaysUntilAllAreGone() async throws {
        try await Bench.run { bench in
            let victim = try await bench.worker("victim")
            for n in 0..<250 { try await bench.push("{\"n\":\(n)}") }
            #expect(try await victim.lease(queue: "apple", max: 250).count == 250)
            try await bench.die(victim)
            let other = try await bench.worker("other")
            func reapOnce() async throws -> [RedisValue] {
                try await bench.reap(by: other).elements ?? []
            }
            #expect(try await reapOnce()[2...].map { $0.int } == [100, 0, 0, 0, 0])
            #expect(try await bench.running(victim) == 150)
            #expect(try await bench.count(bench.keys.workers) == 2)
            #expect(try await reapOnce()[2...].map { $0.int } == [100, 0, 0, 0, 0])
            #expect(try await reapOnce()[2...].map { $0.int } == [50, 0, 0, 0, 1])
            #expect(try await bench.pending() == 250)
        }
    }

    @Test @LoopActor func workerThatWasReapedWhileAliveComesBackWithNothing() async throws {
        try await Bench.run { bench in
            let frozen = try await bench.worker("frozen")
            let lease = try await frozen.submitAndLease("0-a", on: bench.front())
            let second = try await frozen.submitAndLease("0-b", on: bench.front())
            try await bench.die(frozen)
            let other = try await bench.worker("other")
            #expect(try await other.sweep().toPending == 2)
            #expect(frozen.holds(lease))
            try await frozen.heartbeat()
            #expect(!frozen.holds(lease) && frozen.heldCount == 0)
            #expect(try await bench.count(bench.keys.workers) == 2)
            // Its late opinions change nothing; the jobs are the other's.
            let names = try await other.lease(queue: "apple", max: 9).map { $0.submission ?? "" }
            #expect(names.sorted() == ["0-a", "0-b"])
            #expect(try await frozen.settle(lease, status: statusJSON("rejected")) == false)
            #expect(try await frozen.retry(second, after: .zero, status: statusJSON("pending")) == false)
            #expect(try await frozen.bury(second, reasons: ["late"], status: statusJSON("dead")) == nil)
            #expect(try await frozen.release(second) == false)
            #expect(try await bench.status("0-a") == text(statusJSON("pending")))
            #expect(try await bench.running(other) == 2)
            #expect(try await bench.retries() == 0)
            #expect(try await bench.dead() == 0)
            #expect(try await frozen.sweep() == ReapReport())
        }
    }

    @Test @LoopActor func workerReapedHalfWayFindsOutWhatItLost() async throws {
        try await Bench.run { bench in
            let frozen = try await bench.worker("frozen")
            for n in 0..<3 { _ = try await bench.front().submit("0-\(n)") }
            let leases = try await frozen.lease(queue: "apple", max: 3)
            try await bench.raw("HDEL", bench.keys.prefix + "running:frozen", leases[1].id)
            #expect(try await frozen.adopt().isEmpty)
            #expect(leases.map { frozen.holds($0) } == [true, false, true])
        }
    }

    // MARK: - Things in the way

    @Test @LoopActor func deadWorkerWhoseJobsCannotBeMovedDoesNotHoldUpTheNext() async throws {
        try await Bench.run { bench in
            let stuck = try await bench.worker("stuck")
            let easy = try await bench.worker("easy")
            try await bench.push("{}", queue: "google")
            _ = try await stuck.lease(queue: "google", max: 1)
            _ = try await easy.submitAndLease("0-a", on: bench.front())
            try await bench.raw("SET", bench.keys.queue("google").pending, "in the way")
            try await bench.die(easy)
            try await bench.raw("ZADD", bench.keys.workers, "1", "stuck")
            let other = try await bench.worker("other")
            let report = try await other.sweep()
            #expect(report.toPending == 1 && report.failed == 1 && report.workersRemoved == 1)
            #expect(try await bench.running(stuck) == 1)
            try await bench.raw("DEL", bench.keys.queue("google").pending)
            #expect(try await other.sweep().toPending == 1)
        }
    }

    @Test @LoopActor func fieldThatIsNoLeaseIsBuried() async throws {
        try await Bench.run { bench in
            let victim = try await bench.worker("victim")
            try await bench.raw("HSET", bench.keys.prefix + "running:victim", "what is this", "an entry")
            try await bench.die(victim)
            let other = try await bench.worker("other")
            #expect(try await other.sweep().buried == 1)
            #expect(try await other.deadLetters().first?.reasons.first == "unknown-lease")
            #expect(try await bench.count(bench.keys.workers) == 1)
        }
    }
}
