import Lab
import ServiceRuntime
import StoreEmulator
import Testing

extension RealProcessTests {
    struct Outage: Sendable, CustomTestStringConvertible {
        let kind: RedisOutage.Kind
        let away: Duration
        var testDescription: String { "\(kind.rawValue) for \(away)" }
    }

    static let outages = [
        Outage(kind: .killed, away: .milliseconds(100)), Outage(kind: .killed, away: .seconds(4)),
        Outage(kind: .restarted, away: .seconds(1)), Outage(kind: .frozen, away: .milliseconds(900)),
        Outage(kind: .frozen, away: .seconds(7)), Outage(kind: .unreachable, away: .milliseconds(500)),
        Outage(kind: .unreachable, away: .milliseconds(2500)), Outage(kind: .unreachable, away: .seconds(7)),
    ]

    /// Goal: the worker and the API are back within two seconds of Redis, and without help.
    ///
    /// Method: one harness; for each
    /// outage a receipt on the list and one through the API at the moment of the return.
    @Test @LoopActor func workResumesWithinTwoSecondsOfRedissReturn() async throws {
        var configuration = FaultHarness.Configuration()
        configuration.usesProxy = true
        try await FaultHarness.running(configuration) { harness in
            for outage in Self.outages {
                let (pushed, posted) = (try Customer(harness, at: .apple), try Customer(harness, at: .google))
                var answered: Duration?
                var posting: Task<Void, Never>?
                let seen = try await harness.takeRedisAway(outage.kind, for: outage.away) {
                    let returned = MonotonicInstant.now
                    posting = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
                        try? await posted.insist()
                        answered = returned.elapsed
                    }
                    try await pushed.push()
                }
                await posting?.value
                let settled = seen.resumedAfter ?? .seconds(10)
                #expect(settled <= Self.resumePromise, "a worker after redis was \(outage.testDescription)")
                #expect(
                    answered ?? .seconds(30) <= Self.resumePromise, "the API after redis was \(outage.testDescription)")
                try await pushed.waitForGems()
            }
            try await harness.expectCleanAudit()
        }
    }
}
