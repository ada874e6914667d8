import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct SuspectTests {
    /// A worker that dies with whatever it leases, and another that reaps it.
    @LoopActor
    private func crash(_ name: String, _ bench: Bench, max: Int = 10) async throws -> (
        leased: [Lease], report: ReapReport
    ) {
        let victim = try await bench.worker(name)
        let leased = try await victim.lease(queue: "apple", max: max)
        try await bench.die(victim)
        return (leased, try await bench.worker("reaper").sweep())
    }

    @Test @LoopActor func jobsOfThreeCrashedWorkersAreLeasedOneAtATimeAndAlone() async throws {
        try await Bench.run { bench in
            for n in 1...3 { _ = try await bench.front().submit("0-\(n)") }
            for n in 1...2 { #expect(try await crash("victim\(n)", bench).report.toPending == 3) }
            #expect(try await crash("victim3", bench).report.toSuspects == 3)
            _ = try await bench.front().submit("0-healthy")
            let worker = try await bench.worker("w1")
            let alone = try await worker.lease(queue: "apple", max: 10)
            #expect(alone.count == 1 && alone[0].isAlone && alone[0].crashes == 3)
            // Nothing beside it, from no queue.
            try await bench.push("{}", queue: "google")
            #expect(try await worker.lease(queue: "apple", max: 10).isEmpty)
            #expect(try await worker.lease(queue: "google", max: 10).isEmpty)
            #expect(try await worker.settle(alone[0], status: statusJSON("credited")))
            var rest: [String?] = []
            for _ in 1...2 {
                let next = try await worker.lease(queue: "apple", max: 10)
                #expect(next.count == 1 && next[0].isAlone)
                rest.append(next[0].submission)
                #expect(try await worker.settle(next[0], status: statusJSON("credited")))
            }
            #expect(Set(rest + [alone[0].submission]) == ["0-1", "0-2", "0-3"])
            #expect(try await worker.lease(queue: "apple", max: 10).map(\.submission) == ["0-healthy"])
            #expect(try await worker.lease(queue: "google", max: 10).count == 1)
        }
    }

    @Test @LoopActor func oneWorkerLetsGoOfEverythingForSuspectsWhileOthersWorkOn() async throws {
        try await Bench.run { bench in
            let busy = try await bench.worker("busy")
            let other = try await bench.worker("other")
            let held = try await busy.submitAndLease("0-held", on: bench.front())
            try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s 0 17 3 0\n{}")
            for n in 1...4 { _ = try await bench.front().submit("0-\(n)") }
            try await bench.push("{}", queue: "google")
            #expect(try await busy.lease(queue: "apple", max: 2).isEmpty)
            #expect(try await busy.lease(queue: "google", max: 2).isEmpty)
            // Nor does waiting for work fetch what it may not have.
            #expect(try await busy.leaseNext(queue: "apple", max: 2).isEmpty)
            #expect(try await busy.leaseNext(queue: "google", max: 2).isEmpty)
            #expect(try await bench.arrived() == 0)
            #expect(try await bench.arrived("google") == 0)
            #expect(try await other.lease(queue: "apple", max: 2).count == 2)
            #expect(try await busy.settle(held, status: statusJSON("credited")))
            let alone = try await busy.lease(queue: "apple", max: 2)
            #expect(alone.map(\.submission) == ["0-s"] && alone[0].isAlone)
            #expect(try await other.lease(queue: "apple", max: 2).count == 2)
            #expect(try await busy.settle(alone[0], status: statusJSON("credited")))
            #expect(try await busy.lease(queue: "google", max: 2).count == 1)
        }
    }

    @Test @LoopActor func suspectBehindOneThatHangsIsTakenByAWorkerThatHoldsNothing() async throws {
        try await Bench.run { bench in
            let (first, second, third) = (
                try await bench.worker("w1"), try await bench.worker("w2"), try await bench.worker("w3")
            )
            for n in 1...3 {
                try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s\(n) 0 17 3 0\n{}")
            }
            for n in 1...2 { _ = try await bench.front().submit("0-\(n)") }
            #expect(try await first.lease(queue: "apple", max: 1).map(\.submission) == ["0-s1"])
            #expect(try await second.lease(queue: "apple", max: 1).map(\.submission) == ["0-s2"])
            // Somebody stays at ordinary work.
            #expect(try await third.lease(queue: "apple", max: 1).map(\.submission) == ["0-1"])
            #expect(try await third.lease(queue: "apple", max: 1).map(\.submission) == ["0-2"])
            // The dead are nobody who could do it.
            try await bench.die(third)
            let fourth = try await bench.worker("w4")
            #expect(try await fourth.lease(queue: "apple", max: 1).isEmpty)
            #expect(try await bench.suspects() == 1)
        }
    }

    @Test @LoopActor func placeOfAWardThatStoppedAskingIsTakenByTheNext() async throws {
        try await Bench.run { bench in
            let (first, second) = (try await bench.worker("w1"), try await bench.worker("w2"))
            _ = try await second.submitAndLease("0-held", on: bench.front())
            for n in 1...2 {
                try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s\(n) 0 17 3 0\n{}")
            }
            #expect(try await first.lease(queue: "apple", max: 1).count == 1)
            #expect(try await second.lease(queue: "apple", max: 1).isEmpty)
            #expect(!second.isIsolated, "one that is at work does not let go of it while there is a ward")
            // Whoever still works on one keeps its place.
            try await bench.raw("ZADD", bench.keys.wards, "1", "w1")
            #expect(try await first.lease(queue: "google", max: 1).isEmpty)
            #expect(try await second.lease(queue: "apple", max: 1).isEmpty)
            #expect(!second.isIsolated)
            try await bench.raw("ZADD", bench.keys.wards, "1", "w1")
            #expect(try await second.lease(queue: "apple", max: 1).isEmpty)
            #expect(second.isIsolated && second.drainingFor == "apple")
        }
    }

    @Test @LoopActor func aWardFromTheFutureBlocksNobodyAfterTheClockWasSetBack() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.raw("ZADD", bench.keys.wards, "9000000000000", "died-before-the-clock-was-set-back")
            try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s 0 17 3 0\n{}")
            #expect(try await worker.lease(queue: "apple", max: 1).map(\.isAlone) == [true])
        }
    }

    @Test @LoopActor func jobThatEndsThreeWorkersAloneIsBuriedAndItsClientTold() async throws {
        try await Bench.run { bench in
            _ = try await bench.front().submit("0-poison", #"{"poison":1}"#)
            for n in 1...3 { _ = try await crash("together\(n)", bench) }
            for n in 1...2 {
                let (leased, report) = try await crash("alone\(n)", bench)
                #expect(leased.count == 1 && leased[0].isAlone)
                #expect(report.toSuspects == 1 && report.buried == 0)
                try await bench.raw("DEL", bench.keys.wards)
            }
            let (_, report) = try await crash("alone3", bench)
            #expect(report.buried == 1)
            #expect(try await bench.status("0-poison") == text(statusJSON("dead")))
            let letter = try #require(try await bench.front().deadLetters().first)
            #expect(letter.reasons.first == "worker-crashed" && letter.submission == "0-poison")
            #expect(letter.crashes == 6 && letter.aloneCrashes == 3)
            #expect(text(letter.payload) == #"{"poison":1}"#)
            #expect(try await bench.suspects() == 0)
        }
    }

    @Test @LoopActor func bareJobThatEndsThreeWorkersAloneIsBuriedUnderItsSubmission() async throws {
        try await Bench.run { bench in
            try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 - 0 17 3 2\n{}")
            let victim = try await bench.worker("victim")
            let alone = try #require(try await victim.lease(queue: "apple", max: 1).first)
            _ = try await victim.identify(alone, as: "0-bare", pendingStatus: statusJSON("pending"))
            try await bench.die(victim)
            #expect(try await bench.worker("reaper").sweep().buried == 1)
            #expect(try await bench.status("0-bare") == text(statusJSON("dead")))
            #expect(try await bench.front().deadLetters().first?.submission == "0-bare")
        }
    }

    @Test @LoopActor func suspectThatSurvivesIsNoSuspectAnyMore() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s 0 17 3 1\n{}")
            let alone = try #require(try await worker.lease(queue: "apple", max: 2).first)
            #expect(try await worker.retry(alone, after: .zero, status: nil))
            let again = try #require(try await worker.lease(queue: "apple", max: 2).first)
            #expect(!again.isAlone && again.crashes == 0)
            let entry = try await bench.raw("HGET", bench.keys.prefix + "running:w1", again.id).text
            #expect(entry == "T1 0-s 1 17 0 1\n{}")
        }
    }

    @Test @LoopActor func suspectAmongTheRetriesIsSortedOutWhenItIsDue() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.raw("ZADD", bench.keys.queue("apple").retry, "1", "T1 0-s 2 17 3 0\n{}")
            #expect(try await worker.lease(queue: "apple", max: 2).isEmpty)
            #expect(try await worker.lease(queue: "apple", max: 2).first?.isAlone == true)
        }
    }

    @Test @LoopActor func releasedSuspectStaysOne() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s 0 17 3 1\n{}")
            let alone = try #require(try await worker.lease(queue: "apple", max: 2).first)
            #expect(try await worker.release(alone))
            #expect(try await bench.suspects() == 1)
            #expect(try await bench.pending() == 0)
        }
    }
}
