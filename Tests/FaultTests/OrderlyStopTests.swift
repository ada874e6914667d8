import Foundation
import HTTP
import Lab
import Redis
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

extension RealProcessTests {
    /// The only worker, once it holds five receipts that Apple is slow to answer for, and whose they are.
    @LoopActor private func holdingFive(
        _ harness: FaultHarness, answersAfter latency: Duration
    ) async throws -> (worker: TellerProcess, customers: [Customer]) {
        harness.emulator.setFaults(FaultKnobs(latency: latency), for: "apple")
        let customers = try (0..<5).map { _ in try Customer(harness, at: .apple) }
        for customer in customers { try await customer.push() }
        let worker = harness.workers[0]
        try await eventually("it holds all") { try await harness.leases(of: worker) == 5 }
        return (worker, customers)
    }

    @Test @LoopActor func aWorkerThatIsToldToStopFinishesWhatItHoldsAndSaysSo() async throws {
        var configuration = FaultHarness.Configuration()
        configuration.workers = 1
        try await FaultHarness.running(configuration) { harness in
            let (worker, customers) = try await holdingFive(harness, answersAfter: Self.slowStore)
            #expect(await worker.stop(within: .seconds(20)))
            let drained = try #require(try LogLine.last("worker drained", in: worker.log))
            #expect(try drained.int64("finished") == 5)
            #expect(try drained.int64("returned") == 0)
            for customer in customers { #expect(try await customer.balance() == Customer.gems) }
            let workers = try await harness.connection.send(["ZCARD", "teller:{0}:workers"], idempotent: true)
            #expect(workers.int == 0, "it took its name off the register")
            try worker.start()
            try await harness.expectCleanAudit()
        }
    }

    @Test @LoopActor func whatAWorkerCannotFinishInTimeItGivesBack() async throws {
        var configuration = FaultHarness.Configuration()
        configuration.workers = 1
        configuration.stopSeconds = 5
        try await FaultHarness.running(configuration) { harness in
            let (worker, customers) = try await holdingFive(harness, answersAfter: .seconds(60))
            #expect(await worker.stop(within: .seconds(20)))
            let drained = try #require(try LogLine.last("worker drained", in: worker.log))
            #expect(try drained.int64("returned") == 5)
            let pending = try await harness.connection.send(["LLEN", "teller:{0}:pending:apple"], idempotent: true)
            #expect(pending.int == 5)
            harness.emulator.setFaults(FaultKnobs(), for: "apple")
            try worker.start()
            for customer in customers { try await customer.waitForGems() }
            try await harness.expectCleanAudit()
        }
    }

    @Test @LoopActor func anAPIThatIsToldToStopAnswersWhatItHolds() async throws {
        try await FaultHarness.running { harness in
            harness.emulator.setFaults(FaultKnobs(latency: Self.slowStore * 2), for: "apple")
            let customer = try Customer(harness, at: .apple)
            let answer = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
                try await customer.post(wait: 20)
            }
            _ = try await harness.holder()
            let begin = MonotonicInstant.now
            #expect(await harness.apis[0].stop(within: .seconds(15)))
            #expect(try await answer.value.status == 202)
            #expect(begin.elapsed < .seconds(15))
            let drained = try #require(try LogLine.last("api drained", in: harness.apis[0].log))
            #expect(try drained.int64("abandoned") == 0)
            try harness.apis[0].start()
            try await harness.apis[0].waitUntilReady(harness.http)
            try await customer.insist()
            try await harness.expectCleanAudit()
        }
    }
}

/// One line of a process's log.
enum LogLine {
    static func last(_ event: String, in path: String) throws -> JSONView? {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        for line in text.split(separator: "\n").reversed() where line.contains("\"event\":\"\(event)\"") {
            return try JSONView.parse(String(line))
        }
        return nil
    }
}
