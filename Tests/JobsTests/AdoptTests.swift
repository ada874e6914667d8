import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

/// How often each submission was leased.
@LoopActor
private final class Seen {
    var names: [String: Int] = [:]
}

@Suite struct AdoptTests {
    /// Leases for `worker` in the way a call does whose reply never arrives.
    @LoopActor
    private func loseReply(_ bench: Bench, _ worker: JobQueue, max: Int, queue: String = "apple") async throws {
        let names = bench.keys.queue(queue)
        let first = worker.nextNumber
        worker.nextNumber += Int64(max)
        _ = try await bench.redis.evaluate(
            JobScripts.lease,
            keys: [
                .string(bench.keys.meta), .string(bench.keys.workers),
                .string(bench.keys.prefix + "running:\(worker.worker?.text ?? "")"),
                .string(names.retry), .string(names.arrived), .string(names.pending), .string(names.suspects),
                .string(bench.keys.wards), .string(bench.keys.pulse),
            ],
            arguments: [
                .string(bench.incarnation), .string(worker.worker?.text ?? ""), .string(queue), .int(Int64(max)),
                .int(first), 3000, 3,
            ])
    }

    @Test @LoopActor func leaseWhoseReplyWasLostIsFoundByItsOwnWorker() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 0..<300 { try await bench.push("T1 0-\(n) 0 17 0 0\n{\"n\":\(n)}") }
            let known = try await worker.lease(queue: "apple", max: 10)
            try await loseReply(bench, worker, max: 290)
            #expect(worker.heldCount == 10)
            worker.mustAdopt = false
            try await worker.heartbeat()
            #expect(worker.mustAdopt, "the heartbeat sees that the hash holds more than the worker")
            let adopted = try await worker.adopt()
            #expect(adopted.count == 290)
            #expect(Set((adopted + known).map(\.submission)).count == 300)
            #expect(try await worker.adopt().isEmpty)
            #expect(worker.heldCount == 300)
            #expect(try await worker.settle(adopted[7], status: statusJSON("credited")))
        }
    }

    @Test @LoopActor func heartbeatSeesALostLeaseAlsoWhileLanesWait() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1") { $0.sweepInterval = .seconds(60) }
            let waiting = Task { @LoopActor @Sendable in try await worker.leaseNext(queue: "google", max: 128) }
            try await eventually("a lane waits") { worker.reserved.contains { $0.waits } }
            try await bench.push("{}")
            try await loseReply(bench, worker, max: 1)
            worker.mustAdopt = false
            try await worker.heartbeat()
            #expect(worker.mustAdopt)
            #expect(try await worker.adopt().count == 1)
            waiting.cancel()
            _ = await waiting.result
        }
    }

    @Test @LoopActor func whatIsHeldOrOnItsWayIsNotAdopted() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 0..<400 { _ = try await bench.front().submit("0-\(n)") }
            // Leases, transitions and adoptions in one another's way: everything is worked on once.
            let seen = Seen()
            let adopting = Task { @LoopActor in
                try await together(0..<10) { _ in
                    var found = 0
                    for _ in 0..<10 { found += try await worker.adopt().count }
                    return found
                }
            }
            _ = try await together(0..<20) { _ in
                while true {
                    let leases = try await worker.lease(queue: "apple", max: 7)
                    guard !leases.isEmpty else { return }
                    for lease in leases {
                        seen.names[lease.submission ?? "", default: 0] += 1
                        let mine = try await worker.settle(lease, status: statusJSON("credited"))
                        #expect(mine)
                    }
                }
            }
            #expect(try await adopting.value.allSatisfy { $0 == 0 })
            #expect(seen.names.count == 400 && seen.names.values.allSatisfy { $0 == 1 })
            #expect(worker.heldCount == 0)
        }
    }

    @Test @LoopActor func adoptedEntryWithABrokenHeaderIsBuried() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("T1 broken")
            try await loseReply(bench, worker, max: 1)
            #expect(try await worker.adopt().isEmpty)
            #expect(try await bench.dead() == 1)
            #expect(try await bench.running(worker) == 0)
        }
    }

    @Test @LoopActor func adoptedSuspectIsStillAlone() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.raw("LPUSH", bench.keys.queue("apple").suspects, "T1 0-s 0 17 3 1\n{}")
            _ = try await bench.front().submit("0-a")
            try await loseReply(bench, worker, max: 5)
            #expect(try await worker.lease(queue: "apple", max: 5).isEmpty)
            let adopted = try await worker.adopt()
            #expect(adopted.map(\.isAlone) == [true])
        }
    }

    @Test @LoopActor func maintenanceKeepsTheWorkerAliveAdoptsAndReapsByItself() async throws {
        try await Bench.run { bench in
            func quick(_ configuration: inout JobQueue.Configuration) {
                configuration.leasePeriod = .milliseconds(600)
                configuration.heartbeatInterval = .milliseconds(100)
                configuration.sweepInterval = .milliseconds(50)
            }
            let victim = try await bench.worker("victim", quick)
            _ = try await victim.submitAndLease("0-v", on: bench.front())
            let worker = try await bench.worker("w1", on: try await bench.connection(), quick)
            try await bench.push("{}")
            try await loseReply(bench, worker, max: 1)
            var adopted: [Lease] = []
            let maintenance = Task { @LoopActor in
                try await worker.maintain { adopted += $0 }
            }
            try await eventually("adopted") { adopted.count == 1 }
            try await eventually("reaped") { try await bench.running(victim) == 0 }
            #expect(try await bench.pending() == 1)
            let names = try await bench.front().workers()
            #expect(names.map(\.worker) == ["w1"])
            // A Redis without its meta hash ends the maintenance instead of going on.
            try await bench.raw("DEL", bench.keys.meta)
            await #expect(throws: RedisError.self) { try await maintenance.value }
        }
    }
}
