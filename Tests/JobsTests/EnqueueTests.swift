import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct EnqueueTests {
    @Test @LoopActor func pushesAndSetsTheStatusTogether() async throws {
        try await Bench.run { bench in
            #expect(try await bench.front().submit("0-a", #"{"x":1}"#) == .enqueued)
            let entry = try #require(try await bench.raw("LINDEX", bench.keys.queue("apple").pending, "0").text)
            let now = try await bench.front().serverNow()
            let header = try #require(JobEntry(Array(entry.utf8)))
            #expect(header.submission == "0-a" && header.attempts == 0 && header.crashes == 0)
            #expect(abs(try #require(header.firstSeenMs) - now) < 5000)
            #expect(entry.hasSuffix("\n" + #"{"x":1}"#))
            #expect(try await bench.status("0-a") == text(statusJSON("pending")))
            let life = try #require(try await bench.raw("TTL", bench.keys.status("0-a")).int)
            #expect((86_390...86_400).contains(life))
        }
    }

    struct Case: Sendable {
        let state: String
        let ageMs: Int
        let pushes: Bool
    }

    /// Credited is answered for as long as it is known; pending while it is alive; everything else is looked at again,
    /// but not all the time.
    static let table = [
        Case(state: "credited", ageMs: 0, pushes: false),
        Case(state: "credited", ageMs: 86_000_000, pushes: false),
        Case(state: "pending", ageMs: 0, pushes: false),
        Case(state: "pending", ageMs: 55_000, pushes: false),
        Case(state: "pending", ageMs: 61_000, pushes: true),
        Case(state: "rejected", ageMs: 5_000, pushes: false),
        Case(state: "rejected", ageMs: 11_000, pushes: true),
        // From before Redis's clock was set back: an hour's "a moment ago" would be too long.
        Case(state: "rejected", ageMs: -3_595_000, pushes: true),
        Case(state: "awaiting-payment", ageMs: 5_000, pushes: false),
        Case(state: "awaiting-payment", ageMs: 11_000, pushes: true),
        Case(state: "dead", ageMs: 5_000, pushes: false),
        Case(state: "dead", ageMs: 11_000, pushes: true),
    ]

    @Test(arguments: table) @LoopActor func pushesOnlyWhatIsNeitherCreditedNorAliveNorJustDecided(_ row: Case)
        async throws
    {
        try await Bench.run { bench in
            let known = statusJSON(row.state, #","player":"p1","old":true"#)
            try await bench.raw("SET", bench.keys.status("0-a"), text(known) ?? "")
            try await bench.age("0-a", by: row.ageMs)
            let outcome = try await bench.front().submit("0-a")
            if row.pushes {
                #expect(outcome == .enqueued)
                #expect(try await bench.status("0-a") == text(statusJSON("pending")))
            } else {
                switch row.state {
                case "credited": #expect(outcome == .alreadyCredited(status: known))
                case "pending": #expect(outcome == .alreadyPending(status: known))
                default: #expect(outcome == .recentlyDecided(status: known))
                }
                #expect(try await bench.status("0-a") == text(known))
            }
            #expect(try await bench.pending() == (row.pushes ? 1 : 0))
        }
    }

    @Test @LoopActor func manyAtOnceForOneSubmissionPushOnce() async throws {
        try await Bench.run { bench in
            let front = bench.front()
            let outcomes = try await together(0..<200) { _ in try await front.submit("0-same") }
            #expect(outcomes.filter { $0 == .enqueued }.count == 1)
            #expect(outcomes.filter { $0 == .alreadyPending(status: statusJSON("pending")) }.count == 199)
            #expect(try await bench.pending() == 1)
        }
    }

    @Test @LoopActor func listAtItsLimitRefusesAndChangesNothing() async throws {
        try await Bench.run { bench in
            let front = bench.front { $0.pendingMax = 3 }
            for n in 0..<3 { #expect(try await front.submit("0-\(n)") == .enqueued) }
            #expect(try await front.submit("0-4") == .full)
            #expect(try await bench.status("0-4") == nil)
            #expect(try await bench.pending() == 3)
            // Known ones are still answered.
            #expect(try await front.submit("0-1") == .alreadyPending(status: statusJSON("pending")))
            // The limit holds inside one batch too.
            _ = try await bench.raw("DEL", bench.keys.queue("apple").pending)
            let outcomes = try await together(10..<20) { try await front.submit("0-\($0)") }
            #expect(outcomes.filter { $0 == .full }.count == 7)
            #expect(try await bench.pending() == 3)
        }
    }

    @Test @LoopActor func jobThatWaitsForItsRetryIsAliveUntilItIsDue() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            #expect(try await worker.retry(lease, after: .seconds(600), status: statusJSON("pending")))
            // As if 500 s had passed: not due for another 100 s.
            try await bench.raw("PEXPIRE", bench.keys.status("0-a"), String(86_400_000 + 100_000))
            #expect(try await bench.front().submit("0-a") == .alreadyPending(status: statusJSON("pending")))
            // Long overdue: something is wrong with it, and a second one does no harm.
            try await bench.age("0-a", by: 61_000)
            #expect(try await bench.front().submit("0-a") == .enqueued)
        }
    }

    @Test @LoopActor func statusOrNameThatTheScriptsCouldNotReadIsRefusedBeforeItIsSent() async throws {
        try await Bench.run { bench in
            let front = bench.front()
            for bad in [#"{"player":"p","state":"pending"}"#, "", "pending", #"{ "state":"pending"}"#] {
                await #expect(throws: RedisError.self) {
                    try await front.enqueue([1], queue: "apple", submission: "0-a", pendingStatus: Array(bad.utf8))
                }
            }
            for bad in ["", "-", "a b", "a\nb", "ä", String(repeating: "a", count: 129), "a/b", "a*"] {
                await #expect(throws: RedisError.self) {
                    try await front.enqueue([1], queue: "apple", submission: bad, pendingStatus: statusJSON("pending"))
                }
                await #expect(throws: RedisError.self) {
                    try await front.enqueue([1], queue: bad, submission: "0-a", pendingStatus: statusJSON("pending"))
                }
            }
            let pending = try await bench.pending()
            #expect(pending == 0)
        }
    }

    @Test @LoopActor func keyOfTheWrongTypeFailsItsCallAlone() async throws {
        try await Bench.run { bench in
            let front = bench.front()
            try await bench.raw("SET", bench.keys.queue("google").pending, "not a list")
            let good = Task { @LoopActor in try await front.submit("0-good") }
            let bad = Task { @LoopActor in try await front.submit("0-bad", queue: "google") }
            #expect(try await good.value == .enqueued)
            await #expect(throws: RedisError.self) { try await bad.value }
            #expect(try await bench.status("0-bad") == nil)
        }
    }
}
