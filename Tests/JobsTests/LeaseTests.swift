import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct LeaseTests {
    @Test @LoopActor func takesDueRetriesThenArrivedThenPendingOldestFirst() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let names = bench.keys.queue("apple")
            for n in 1...3 { try await bench.push("{\"pending\":\(n)}") }
            try await bench.raw("LPUSH", names.arrived, #"{"arrived":1}"#)
            try await bench.raw("LPUSH", names.arrived, #"{"arrived":2}"#)
            try await bench.raw("ZADD", names.retry, "5", #"{"due":2}"#, "1", #"{"due":1}"#)
            try await bench.raw("ZADD", names.retry, "99999999999999", #"{"due":"later"}"#)
            let first = try await worker.lease(queue: "apple", max: 3)
            #expect(first.map { text($0.payload) } == [#"{"due":1}"#, #"{"due":2}"#, #"{"arrived":1}"#])
            let second = try await worker.lease(queue: "apple", max: 3)
            #expect(second.map { text($0.payload) } == [#"{"arrived":2}"#, #"{"pending":1}"#, #"{"pending":2}"#])
            #expect(Set((first + second).map(\.id)).count == 6)
            #expect(try await bench.running(worker) == 6)
            #expect(try await bench.pending() == 1)
            #expect(try await bench.retries() == 1)
            #expect(worker.heldCount == 6)
        }
    }

    @Test @LoopActor func emptyQueueGivesNothingAndProvesThatWorkCanBeHad() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            #expect(worker.lastLeaseRoundTrip == nil)
            #expect(try await worker.lease(queue: "apple", max: 10).isEmpty)
            #expect(worker.lastLeaseRoundTrip != nil)
            #expect(try await worker.lease(queue: "apple", max: 0).isEmpty)
        }
    }

    @Test @LoopActor func leaseBeatsTheHeart() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.die(worker)
            _ = try await worker.lease(queue: "apple", max: 1)
            #expect(try await bench.front().workers().first?.isStale == false)
        }
    }

    @Test @LoopActor func workerThatIsNotRegisteredIsRefusedByTheScriptAndRegistersItself() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("{}")
            try await bench.raw("ZREM", bench.keys.workers, "w1")
            #expect(try await worker.lease(queue: "apple", max: 1).count == 1)
            #expect(try await bench.count(bench.keys.workers) == 1)
        }
    }

    @Test @LoopActor func headerBecomesTheLease() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("T1 0-abc 4 1700000000000 2 1\n{\"a\":\"\u{0}\n\"}")
            let lease = try #require(try await worker.lease(queue: "apple", max: 1).first)
            #expect(lease.submission == "0-abc" && lease.attempts == 4 && lease.crashes == 2)
            #expect(lease.firstSeen.value == 1_700_000_000_000)
            #expect(text(lease.payload) == "{\"a\":\"\u{0}\n\"}")
            #expect(!lease.isAlone)
        }
    }

    @Test @LoopActor func bareJobGetsItsSubmissionAndStatusWhenIdentified() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push(#"{"bare":true}"#)
            let bare = try #require(try await worker.lease(queue: "apple", max: 1).first)
            #expect(bare.submission == nil)
            let lease = try await worker.identify(bare, as: "0-x", pendingStatus: statusJSON("pending"))
            #expect(lease.submission == "0-x")
            #expect(try await bench.status("0-x") == text(statusJSON("pending")))
            #expect(worker.holds(lease))
            // A retry writes it down: whoever leases the job next knows whose it is.
            #expect(try await worker.retry(lease, after: .zero, status: nil))
            let again = try #require(try await worker.lease(queue: "apple", max: 1).first)
            #expect(again.submission == "0-x")
            #expect(text(again.payload) == #"{"bare":true}"#)
        }
    }

    @Test @LoopActor func bareJobThatWasInACrashedWorkerIsNamedAtOnce() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let running = bench.keys.prefix + "running:w1"
            try await bench.push("T1 - 2 17 1 0\n{}")
            let bare = try #require(try await worker.lease(queue: "apple", max: 1).first)
            _ = try await worker.identify(bare, as: "0-x", pendingStatus: statusJSON("pending"))
            #expect(try await bench.raw("HGET", running, bare.id).text == "T1 0-x 2 17 1 0\n{}")
            // Said too late it does not bring back what others have by now.
            try await bench.raw("DEL", running)
            _ = try await worker.identify(bare, as: "0-x", pendingStatus: statusJSON("pending"))
            #expect(try await bench.running(worker) == 0)
        }
    }

    @Test @LoopActor func jobUnderAnotherSubmissionGetsItsOwnInItsHeader() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("T1 0-victim 2 17 0 0\n{}")
            let misnamed = try #require(try await worker.lease(queue: "apple", max: 1).first)
            let lease = try await worker.identify(misnamed, as: "0-x", pendingStatus: statusJSON("pending"))
            #expect(lease.submission == "0-x")
            let running = bench.keys.prefix + "running:w1"
            #expect(try await bench.raw("HGET", running, lease.id).text == "T1 0-x 2 17 0 0\n{}")
            #expect(try await bench.status("0-victim") == nil)
        }
    }

    @Test @LoopActor func ageIsCountedByRedissClock() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("T1 0-a 0 \(try await bench.serverNow() - 3_600_000) 0 0\n{}")
            try await bench.push("{}")
            let leases = try await worker.lease(queue: "apple", max: 2)
            #expect(leases.count == 2)
            #expect(leases[0].age >= .seconds(3600) && leases[0].age < .seconds(3660))
            #expect(leases[1].age < .seconds(60))
        }
    }

    @Test @LoopActor func identifyingDoesNotHideACredit() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.raw("SET", bench.keys.status("0-x"), text(statusJSON("credited")) ?? "")
            try await bench.push("{}")
            let bare = try #require(try await worker.lease(queue: "apple", max: 1).first)
            _ = try await worker.identify(bare, as: "0-x", pendingStatus: statusJSON("pending"))
            #expect(try await bench.status("0-x") == text(statusJSON("credited")))
        }
    }

    @Test @LoopActor func brokenHeaderIsBuriedWithItsReasonAndStopsNobody() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("T1 - x 1 0 0\n" + String(repeating: "z", count: 10_000))
            try await bench.push("T1 broken")
            try await bench.push("T1 0-x 99999999999999999999 17 0 0\n{}")
            try await bench.push(#"{"good":1}"#)
            let leases = try await worker.lease(queue: "apple", max: 10)
            #expect(leases.map { text($0.payload) } == [#"{"good":1}"#])
            let dead = try await worker.deadLetters()
            #expect(dead.count == 3)
            #expect(dead.allSatisfy { $0.reasons == ["unreadable-header"] && $0.queue == "apple" })
            let long = try #require(dead.first { $0.entryBytes > 4096 })
            #expect(long.isTruncated && long.sha1.utf8.count == 40)
            #expect(try await worker.replay(long.id) == .truncated)
            #expect(try await bench.running(worker) == 1)
            #expect(worker.heldCount == 1)
        }
    }

    @Test @LoopActor func onlyWorkersMayLease() async throws {
        try await Bench.run { bench in
            await #expect(throws: RedisError.self) { try await bench.front().lease(queue: "apple", max: 1) }
        }
    }

    @Test @LoopActor func waitEndsWithThePushAndItsLease() async throws {
        try await Bench.runAlone { bench in
            let worker = try await bench.worker("w1") { $0.sweepInterval = .seconds(60) }
            async let woken = worker.leaseNext(queue: "apple", max: 10)
            try await bench.someoneWaits()
            let start = MonotonicInstant.now
            _ = try await bench.front().submit("0-a")
            let leases = try await woken
            #expect(leases.map(\.submission) == ["0-a"])
            #expect(start.elapsed < .seconds(30))
            #expect(worker.heldCount == 1)
            #expect(try await bench.arrived() == 0)
            worker.stopWaiting()
        }
    }

    @Test @LoopActor func waitThatEndsWithoutAPushLeasesTheRetriesThatBecameDue() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1") { $0.sweepInterval = .milliseconds(300) }
            let held = try await worker.submitAndLease("0-a", on: bench.front())
            #expect(try await worker.retry(held, after: .milliseconds(100), status: nil))
            #expect(try await worker.leaseNext(queue: "apple", max: 10).map(\.attempts) == [1])
            worker.stopWaiting()
        }
    }

    @Test @LoopActor func waitOutlivesAServerThatForgotTheScripts() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 1...3 {
                _ = try await bench.front().submit("0-\(n)")
                #expect(try await worker.leaseNext(queue: "apple", max: 10).count == 1)
                try await bench.raw("SCRIPT", "FLUSH")
            }
            worker.stopWaiting()
        }
    }

    @Test @LoopActor func waitOfAFullRedisStillLeases() async throws {
        try await RedisServer.running { server in
            try await Bench.run(on: server) { bench in
                let worker = try await bench.worker("w1")
                _ = try await bench.front().submit("0-a")
                try await bench.raw("CONFIG", "SET", "maxmemory", "1")
                #expect(try await worker.leaseNext(queue: "apple", max: 10).count == 1)
                worker.stopWaiting()
            }
        }
    }

    @Test @LoopActor func waitWhoseReplyIsLostCallsForAdoption() async throws {
        try await Bench.runAlone { bench in
            let worker = try await bench.worker("w1") { $0.sweepInterval = .seconds(5) }
            worker.mustAdopt = false
            let waiting = Task { @LoopActor @Sendable in try await worker.leaseNext(queue: "apple", max: 10) }
            try await bench.someoneWaits()
            waiting.cancel()
            await #expect(throws: RedisError.self) { try await waiting.value }
            #expect(worker.mustAdopt)
            worker.stopWaiting()
        }
    }

    @Test @LoopActor func secondWaitOfOneThatRegistersCallsForAdoptionWhenItIsLost() async throws {
        try await Bench.run { bench in
            let worker = bench.newcomer("w1") { $0.sweepInterval = .seconds(2) }
            let waiting = Task { @LoopActor @Sendable in try await worker.leaseNext(queue: "apple", max: 10) }
            try await eventually("the first wait ends and registers") { try await bench.count(bench.keys.workers) == 1 }
            worker.mustAdopt = false
            waiting.cancel()
            await #expect(throws: RedisError.self) { try await waiting.value }
            #expect(worker.mustAdopt)
        }
    }

    @Test(arguments: ["google", "apple"])
    @LoopActor func workerThatMakesRoomForASuspectNeitherSpinsNorWaits(queue: String) async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1") { $0.sweepInterval = .seconds(60) }
            // As when the reply of another lane, sent before, came behind the one that said "drain".
            worker.drainingFor = queue
            let start = MonotonicInstant.now
            #expect(try await worker.leaseNext(queue: "apple", max: 10).isEmpty)
            #expect(start.elapsed >= .milliseconds(15) && start.elapsed < .seconds(30))
        }
    }

    @Test @LoopActor func releaseGoesToTheFrontUnchanged() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 1...3 { _ = try await bench.front().submit("0-\(n)") }
            let leases = try await worker.lease(queue: "apple", max: 2)
            #expect(try await worker.leave() == false)
            for lease in leases.reversed() { #expect(try await worker.release(lease)) }
            #expect(try await worker.release(leases[0]) == false)
            #expect(try await worker.leave())
            #expect(try await bench.count(bench.keys.workers) == 0)
            let other = try await bench.worker("w2")
            let again = try await other.lease(queue: "apple", max: 3)
            #expect(again.map(\.submission) == ["0-1", "0-2", "0-3"])
            #expect(again.allSatisfy { $0.attempts == 0 && $0.crashes == 0 })
        }
    }
}
