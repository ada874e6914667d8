import HTTP
import Lab
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

extension RealProcessTests {
    @Test @LoopActor func receiptsOfAKilledWorkerAreBackAtWorkWithinFiveSeconds() async throws {
        try await FaultHarness.running { harness in
            // Slow enough that whoever leases first still holds everything when it dies.
            harness.emulator.setFaults(FaultKnobs(latency: .seconds(60)), for: "apple")
            let customers = try (0..<20).map { _ in try Customer(harness, at: .apple) }
            for customer in customers { #expect(try await customer.post(wait: 0).status == 202) }
            let victim = try await harness.holder()
            let pid = try #require(victim.pid)
            let at = await victim.kill()
            harness.emulator.setFaults(FaultKnobs(), for: "apple")
            let watch = OrphanWatch(harness.connection)
            await watch.watch(pid: pid, killedAt: at)
            #expect(watch.times.recoveries.count >= 1)
            #expect(watch.times.neverSeen == 0)
            let slowest = try #require(watch.times.recoveries.max())
            #expect(slowest <= Self.orphanPromise)
            // What the survivor itself leased before hangs in the slow store: a second death frees that, too.
            for other in harness.workers where other.isRunning { await other.kill() }
            for worker in harness.workers { try worker.start() }
            for customer in customers { try await customer.waitForGems() }
            try await harness.expectCleanAudit()
        }
    }

    @Test @LoopActor func aFrozenWorkerIsFencedAndItsLateWordChangesNothing() async throws {
        try await FaultHarness.running { harness in
            // The first answer is a 503, the second a yes: the frozen worker will want a retry of what is credited by then.
            harness.emulator.setFaults(
                FaultKnobs(latency: Self.slowStore, faults: [StoreFault(.status(503), count: 1)]), for: "apple")
            let customer = try Customer(harness, at: .apple)
            try await customer.push()
            let sleeper = try await harness.holder()
            try await eventually("it has asked") { harness.emulator.requests(to: .appleTransaction) == 1 }
            sleeper.freeze()
            try await customer.waitForGems()
            sleeper.thaw()
            try await eventually("the late word is refused") {
                try await harness.metric("teller_jobs_fenced_total", of: sleeper) > 0
            }
            #expect(try await customer.balance() == Customer.gems)
            try await eventually("it works again") { try await harness.metric("teller_jobs_running", of: sleeper) == 0 }
            try await harness.expectCleanAudit()
        }
    }

    @Test @LoopActor func aCreditSaidTooLateIsTheSameCredit() async throws {
        try await FaultHarness.running { harness in
            // Not the access token: whoever has to fetch one would ask five seconds later, when the other has its answer.
            for endpoint in ["apple", "google.get"] {
                harness.emulator.setFaults(FaultKnobs(latency: Self.slowStore), for: endpoint)
            }
            let customers = [try Customer(harness, at: .apple), try Customer(harness, at: .google)]
            for customer in customers { try await customer.push() }
            let sleeper = try await harness.holder()
            try await eventually("both have been asked for") {
                harness.emulator.requests(to: .appleTransaction) + harness.emulator.requests(to: .googleGet) == 2
            }
            sleeper.freeze()
            for customer in customers { try await customer.waitForGems() }
            sleeper.thaw()
            try await eventually("it works again") {
                let running = try await harness.metric("teller_jobs_running", of: sleeper)
                let fenced = try await harness.metric("teller_jobs_fenced_total", of: sleeper)
                return running == 0 && fenced > 0
            }
            for customer in customers { #expect(try await customer.balance() == Customer.gems) }
            try await harness.expectCleanAudit()
        }
    }
}
