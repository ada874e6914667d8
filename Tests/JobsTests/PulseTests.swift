import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

/// When a silent worker may be taken for dead, and when the silence is Redis's own.
@Suite struct PulseTests {
    /// A worker that fell silent while it held a job.
    @LoopActor @discardableResult private func deadWorkerWithAJob(_ bench: Bench) async throws -> JobQueue {
        let victim = try await bench.worker("victim")
        _ = try await victim.submitAndLease("0-a", on: bench.front())
        try await bench.die(victim)
        return victim
    }

    @Test @LoopActor func workerThatHasJustStartedReapsAtOnceWhenOthersKeptThePulse() async throws {
        try await Bench.run { bench in
            try await deadWorkerWithAJob(bench)
            try await bench.beforeNow(lastMs: 10_000, sinceMs: 61_000)
            let newcomer = bench.newcomer("newcomer")
            #expect(try await newcomer.sweep().isTooEarly, "it has said nothing yet itself")
            try await newcomer.heartbeat()
            #expect(try await newcomer.sweep().toPending == 1)
        }
    }

    @Test @LoopActor func nobodyIsReapedForALeaseAfterAPause() async throws {
        try await Bench.run { bench in
            try await deadWorkerWithAJob(bench)
            try await bench.beforeNow(lastMs: 60_000, sinceMs: 600_000)
            let other = bench.newcomer("other") {
                $0.leasePeriod = .milliseconds(400)
                $0.heartbeatInterval = .milliseconds(50)
            }
            let start = MonotonicInstant.now
            try await other.heartbeat()
            #expect(try await other.sweep().isTooEarly)
            #expect(try await bench.pending() == 0)
            try await eventually("reaped") {
                try await other.heartbeat()
                return try await other.sweep().toPending == 1
            }
            #expect(start.elapsed >= .milliseconds(390))
        }
    }

    struct Gap: Sendable, CustomTestStringConvertible {
        let what: String
        let lastAgeMs: Int64
        let goesOn: Bool
        var testDescription: String { what }
    }

    @Test(arguments: [
        Gap(what: "the next one", lastAgeMs: 500, goesOn: true),
        Gap(what: "a late one", lastAgeMs: 15_000, goesOn: true),
        Gap(what: "an outage, or a clock set forward", lastAgeMs: 30_001, goesOn: false),
        Gap(what: "a backup from yesterday", lastAgeMs: 86_400_000, goesOn: false),
        Gap(what: "a clock set back", lastAgeMs: -600_000, goesOn: false),
    ])
    @LoopActor func pulseBeginsAnewAfterALongPause(_ gap: Gap) async throws {
        try await Bench.run { bench in
            let worker = bench.newcomer("w1")
            try await worker.register()
            let begin = try #require(worker.lastBeatMs) - 60_000
            try await bench.beforeNow(lastMs: gap.lastAgeMs, sinceMs: 60_000)
            try await bench.raw("HSET", bench.keys.pulse, "sinceMs", String(begin))
            try await worker.heartbeat()
            let now = try #require(worker.lastBeatMs)
            #expect(try await bench.raw("HGET", bench.keys.pulse, "lastMs").text == String(now))
            #expect(
                try await bench.raw("HGET", bench.keys.pulse, "sinceMs").text == String(gap.goesOn ? begin : now))
        }
    }

    @Test @LoopActor func everyWorkerCarriesOnTheSamePulse() async throws {
        try await Bench.run { bench in
            let first = bench.newcomer("first")
            try await first.heartbeat()
            let begin = try #require(first.lastBeatMs)
            let second = bench.newcomer("second")
            try await second.heartbeat()
            try await first.heartbeat()
            #expect(try await bench.raw("HGET", bench.keys.pulse, "sinceMs").text == String(begin))
            // One that was reaped says nothing before it is registered again.
            try await bench.raw("ZREM", bench.keys.workers, "second")
            try await bench.raw("DEL", bench.keys.pulse)
            await #expect(throws: RedisError.self) {
                _ = try await second.beat(try #require(second.worker), isNew: false)
            }
            #expect(try await bench.raw("EXISTS", bench.keys.pulse).int == 0)
        }
    }

    struct Evidence: Sendable, CustomTestStringConvertible {
        let what: String
        var lastAgeMs: Int64 = 100
        var sinceAgeMs: Int64 = 60_000
        var beatAgeMs: Int64 = 100
        var ownAgeMs: Int64 = 100
        let judges: Bool
        var testDescription: String { what }
    }

    @Test(arguments: [
        Evidence(what: "whole", judges: true),
        Evidence(
            what: "all as old as they may be", lastAgeMs: 20_000, beatAgeMs: 20_000, ownAgeMs: 50_000, judges: true),
        Evidence(what: "began less than a lease ago", sinceAgeMs: 40_000, judges: false),
        Evidence(what: "the sweep was sent before an outage", lastAgeMs: 30_001, beatAgeMs: 30_001, judges: false),
        Evidence(what: "replies take long", beatAgeMs: 30_001, judges: false),
        Evidence(what: "the sweeper is taken for dead itself", ownAgeMs: 60_001, judges: false),
        Evidence(what: "the clock was set back", lastAgeMs: -20_000, judges: false),
        Evidence(what: "the clock was set back, and only it knows", beatAgeMs: -20_000, judges: false),
    ])
    @LoopActor func scriptJudgesOnFreshEvidenceOnly(_ row: Evidence) async throws {
        try await Bench.run { bench in
            let victim = try await deadWorkerWithAJob(bench)
            let other = try await bench.worker("other")
            try await bench.beforeNow(lastMs: row.lastAgeMs, sinceMs: row.sinceAgeMs)
            let own = try await bench.serverNow() - row.ownAgeMs
            try await bench.raw("ZADD", bench.keys.workers, "XX", String(own), "other")
            let reply = try await bench.reap(by: other, beatAgeMs: row.beatAgeMs)
            #expect(reply.elements?.first?.text == (row.judges ? "reaped" : "wait"))
            #expect(try await bench.running(victim) == (row.judges ? 0 : 1))
        }
    }

    @Test @LoopActor func withoutAPulseNobodyIsReaped() async throws {
        try await Bench.run { bench in
            let victim = try await bench.worker("victim")
            try await bench.die(victim)
            let other = try await bench.worker("other")
            try await bench.raw("DEL", bench.keys.pulse)
            #expect(try await other.sweep().isTooEarly)
        }
    }

    @Test @LoopActor func heartbeatFromBeforeTheClockWasSetBackKeepsNobodyAlive() async throws {
        try await Bench.run { bench in
            let victim = try await bench.worker("victim")
            _ = try await victim.submitAndLease("0-a", on: bench.front())
            let other = try await bench.worker("other")
            // Both have beaten in the hour that now comes a second time.
            let hour: Int64 = 3_600_000
            let later = String(try await bench.serverNow() + hour)
            for name in ["victim", "other"] { try await bench.raw("ZADD", bench.keys.workers, later, name) }
            try await bench.beforeNow(lastMs: -hour, sinceMs: -hour + 60_000)
            try await other.heartbeat()
            let now = try #require(other.lastBeatMs)
            #expect(try await bench.raw("ZSCORE", bench.keys.workers, "victim").text == String(now))
            #expect(try await other.sweep().isTooEarly)
            try await bench.raw("ZADD", bench.keys.workers, String(now - 60_001), "victim")
            try await bench.beforeNow(lastMs: 0, sinceMs: 61_000)
            #expect(try await other.sweep().toPending == 1)
        }
    }

    @Test @LoopActor func workerThatLostItsOwnConnectionJudgesAfterItsNextHeartbeatAndBreaksNothing() async throws {
        try await Bench.run { bench in
            let victim = try await bench.worker("victim")
            _ = try await victim.submitAndLease("0-a", on: bench.front())
            let connection = try await bench.connection()
            let other = try await bench.worker("other", on: connection)
            let id = try await connection.send(["CLIENT", "ID"]).int ?? 0
            try await bench.raw("CLIENT", "KILL", "ID", String(id))
            try await eventually("it is connected again") {
                connection.isConnected && other.lastBeatMs == nil
            }
            try await bench.die(victim)
            try await bench.beforeNow(lastMs: 0, sinceMs: 61_000)
            #expect(try await other.sweep().isTooEarly)
            try await other.heartbeat()
            #expect(try await other.sweep().toPending == 1)
        }
    }
}
