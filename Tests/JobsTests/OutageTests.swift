import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

/// What happens when Redis is full, frozen or killed; each on a server of its own.
@Suite(.serialized) struct OutageTests {
    @Test @LoopActor func fullRedisRefusesNewWorkAndDrainsWhatItHas() async throws {
        try await RedisServer.running { server in
            try await Bench.run(on: server) { bench in
                let worker = try await bench.worker("w1")
                let front = bench.front()
                let payload = [UInt8](repeating: UInt8(ascii: "x"), count: 6000)
                for n in 0..<40 {
                    _ = try await front.enqueue(
                        payload, queue: "apple", submission: "0-\(n)", pendingStatus: statusJSON("pending"))
                }
                try await bench.raw("CONFIG", "SET", "maxmemory", "1mb")
                do {
                    _ = try await front.submit("0-new")
                    Issue.record("a full Redis took new work")
                } catch let error as RedisError {
                    #expect(error.kind == .outOfMemory && !error.mayHaveBeenApplied)
                }
                let leases = try await worker.lease(queue: "apple", max: 40)
                #expect(leases.count == 40)
                for (index, lease) in leases.enumerated() {
                    switch index % 4 {
                    case 0: #expect(try await worker.settle(lease, status: statusJSON("credited")))
                    case 1: #expect(try await worker.retry(lease, after: .zero, status: statusJSON("pending")))
                    case 2: #expect(try await worker.bury(lease, reasons: ["r"], status: statusJSON("dead")) != nil)
                    default: #expect(try await worker.release(lease))
                    }
                }
                try await worker.heartbeat()
                #expect(try await bench.retries() == 10)
                #expect(try await bench.dead() == 10)
                #expect(try await bench.pending() == 10)
                #expect(try await bench.running(worker) == 0)
                let victim = bench.newcomer("victim")
                #expect(try await victim.lease(queue: "apple", max: 20).count == 20)
                try await bench.raw("CONFIG", "SET", "maxmemory", "0")
                try await bench.die(victim)
                try await bench.pulse(worker)
                try await bench.raw("CONFIG", "SET", "maxmemory", "1mb")
                try await worker.heartbeat()
                #expect(try await worker.sweep().toPending == 20)
                try await bench.raw("CONFIG", "SET", "maxmemory", "0")
                #expect(try await front.submit("0-new") == .enqueued)
            }
        }
    }

    @Test @LoopActor func transitionsWaitForARedisThatIsKilledAndNothingIsLost() async throws {
        try await RedisServer.running { server in
            try await Bench.run(on: server) { bench in
                let worker = try await bench.worker("w1")
                let front = bench.front()
                for n in 0..<200 { _ = try await front.submit("0-\(n)") }
                let leases = try await worker.lease(queue: "apple", max: 100)
                await server.kill()
                let settling = Task { @LoopActor in
                    try await together(leases) { try await worker.settle($0, status: statusJSON("credited")) }
                }
                await #expect(throws: RedisError.self) { try await worker.lease(queue: "apple", max: 10) }
                try await server.start()
                #expect(try await settling.value.filter { $0 }.count == 100)
                #expect(try await bench.pending() == 100)
                #expect(try await bench.running(worker) == 0)
                // Everybody looks dead after an outage; nobody may say so yet.
                try await bench.beforeNow(lastMs: 31_000, sinceMs: 600_000)
                try await bench.die(worker)
                #expect(try await worker.sweep().isTooEarly, "before its first heartbeat over the new connection")
                let other = bench.newcomer("other")
                try await other.heartbeat()
                #expect(try await other.sweep().isTooEarly)
            }
        }
    }

    @Test @LoopActor func sweepSentBeforeAFreezeDoesNotReapAfterIt() async throws {
        try await RedisServer.running { server in
            try await Bench.run(on: server) { bench in
                func quick(_ configuration: inout JobQueue.Configuration) {
                    configuration.leasePeriod = .milliseconds(600)
                    configuration.heartbeatInterval = .milliseconds(100)
                }
                let living = try await bench.worker("living", on: try await bench.connection(), quick)
                _ = try await living.submitAndLease("0-a", on: bench.front())
                let sweeper = try await bench.worker("sweeper", on: try await bench.connection(), quick)
                await server.freeze()
                // Both in the server's socket buffer when it wakes up, the heartbeat first.
                let sweeping = Task { @LoopActor in
                    async let beat: Void = sweeper.heartbeat()
                    async let report = sweeper.sweep()
                    try await beat
                    return try await report
                }
                try await pause(for: .milliseconds(900))
                await server.thaw()
                let report = try await sweeping.value
                #expect(report.isTooEarly)
                #expect(try await bench.running(living) == 1)
            }
        }
    }

    @Test @LoopActor func givenUpTransitionIsAdoptedAndDoneAgain() async throws {
        try await RedisServer.running { server in
            try await Bench.run(on: server) { bench in
                let worker = try await bench.worker("w1") { $0.transitionPatience = .milliseconds(100) }
                let lease = try await worker.submitAndLease("0-a", on: bench.front())
                await server.kill()
                await #expect(throws: RedisError.self) {
                    try await worker.settle(lease, status: statusJSON("credited"))
                }
                #expect(!worker.holds(lease))
                try await server.start()
                try await eventually("connected") { worker.redis.isConnected }
                let adopted = try await worker.adopt()
                #expect(adopted.map(\.submission) == ["0-a"])
                #expect(try await worker.settle(adopted[0], status: statusJSON("credited")))
            }
        }
    }
}
