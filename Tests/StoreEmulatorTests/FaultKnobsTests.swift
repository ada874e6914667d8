import HTTP
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

@Suite @LoopActor struct FaultKnobsTests {
    private static let gems = PurchaseRequest(store: .google, player: "ben", storeProductID: "gems_500")

    private func look(
        _ scene: EmulatorScene, _ knobs: FaultKnobs, deadline: Duration = .seconds(5)
    ) async throws -> HTTPAnswer {
        let purchase = try scene.emulator.purchase(Self.gems)
        let access = try await scene.accessToken()
        scene.emulator.setFaults(knobs, for: "google.get")
        return try await scene.send(.get, scene.productURL(purchase.id), token: access, deadline: deadline)
    }

    @Test(arguments: [400, 401, 403, 404, 409, 410, 429, 500, 502, 503, 504])
    func aStatusComesWithGooglesOwnBody(status: Int) async throws {
        try await EmulatorScene.with { scene in
            let answer = try await look(scene, FaultKnobs(faults: [StoreFault(.status(status))]))
            #expect(answer.status == status)
            #expect(try JSONView.parse(answer.body).object("error").int64("code") == Int64(status))
        }
    }

    @Test func brokenConnectionsAreSeenAsSuchByAClient() async throws {
        try await EmulatorScene.with { scene in
            for (kind, deadline) in [
                (StoreFault.Kind.reset, 5000), (.close, 5000), (.truncated, 5000), (.hang, 200),
            ] {
                let knobs = FaultKnobs(faults: [StoreFault(kind)])
                do {
                    _ = try await look(scene, knobs, deadline: .milliseconds(deadline))
                    Issue.record("\(kind) gave an answer")
                } catch let error as HTTPClientError {
                    let expected: [HTTPClientError.Kind] =
                        kind == .hang ? [.timeout] : kind == .truncated ? [.truncated] : [.connectionLost]
                    #expect(expected.contains(error.kind), "\(kind)")
                    #expect(!error.wasNeverSent)
                }
            }
        }
    }

    @Test func answersThatAreNotJSONComeWithTheirStatus() async throws {
        try await EmulatorScene.with { scene in
            for (kind, status) in [(StoreFault.Kind.badGatewayPage, 502), (.unauthorizedText, 401), (.notJSON, 200)] {
                let answer = try await look(scene, FaultKnobs(faults: [StoreFault(kind)]))
                #expect(answer.status == status)
                #expect(throws: JSONError.self) { try JSONView.parse(answer.body) }
            }
        }
    }

    @Test func applesRetryAfterIsATimeInMilliseconds() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(
                PurchaseRequest(store: .apple, player: "ada", storeProductID: "com.mygame.gems.500"))
            let knobs = FaultKnobs(faults: [StoreFault(.throttled(retryAfter: .seconds(90)))])
            scene.emulator.setFaults(knobs, for: "apple")
            let answer = try await scene.transaction(purchase.id)
            #expect(answer.status == 429)
            #expect(answer.header("Retry-After") == String((scene.clock.now + .seconds(90)).value))
            #expect(try JSONView.parse(answer.body).int64("errorCode") == 4_290_000)
            scene.emulator.setFaults(FaultKnobs(faults: [StoreFault(.appleError(4_040_002))]), for: "apple.production")
            #expect(try await scene.transaction(purchase.id).status == 404)
        }
    }

    @Test func googlesRetryAfterIsInSeconds() async throws {
        try await EmulatorScene.with { scene in
            let answer = try await look(
                scene, FaultKnobs(faults: [StoreFault(.throttled(retryAfter: .seconds(7)))]))
            #expect(answer.status == 429)
            #expect(answer.header("Retry-After") == "7")
        }
    }

    @Test func aCountedFaultStopsByItself() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            let access = try await scene.accessToken()
            scene.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(404), count: 2)]), for: "google.get")
            var statuses: [Int] = []
            for _ in 0..<4 {
                statuses.append(try await scene.send(.get, scene.productURL(purchase.id), token: access).status)
            }
            #expect(statuses == [404, 404, 200, 200])
            #expect(scene.emulator.requests(to: .googleGet) == 4)
        }
    }

    @Test func aShareStrikesAboutThatOften() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            let access = try await scene.accessToken()
            scene.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(500), share: 0.3)]), for: "google.get")
            var failures = 0
            for _ in 0..<200 {
                let answer = try await scene.send(.get, scene.productURL(purchase.id), token: access)
                if answer.status == 500 { failures += 1 }
            }
            // The dice are seeded: the same 200 throws every time.
            #expect((40...80).contains(failures))
        }
    }

    @Test func aLostAnswerLeavesTheStoreChanged() async throws {
        try await EmulatorScene.with { scene in
            let access = try await scene.accessToken()
            for (happensAfterEffect, isConsumed) in [(true, true), (false, false)] {
                let purchase = try scene.emulator.purchase(Self.gems)
                let fault = StoreFault(.reset, happensAfterEffect: happensAfterEffect)
                scene.emulator.setFaults(FaultKnobs(faults: [fault]), for: "google.consume")
                await #expect(throws: HTTPClientError.self) {
                    try await scene.send(.post, scene.productURL(purchase.id) + ":consume", token: access)
                }
                #expect(scene.emulator.record(purchase.id, in: .google)?.isConsumed == isConsumed)
            }
        }
    }

    @Test func latencyDelaysAnAnswerAndOnlyTheNamedEndpoints() async throws {
        try await EmulatorScene.with { scene in
            let knobs = FaultKnobs(latency: .milliseconds(80), jitter: .milliseconds(20))
            let start = MonotonicInstant.now
            let answer = try await look(scene, knobs)
            #expect(answer.status == 200)
            #expect(start.elapsed >= .milliseconds(80))
            scene.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(503))]), for: "apple")
            scene.emulator.setFaults(FaultKnobs(), for: "google")
            let purchase = try scene.emulator.purchase(Self.gems)
            let access = try await scene.accessToken()
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: access).status == 200)
        }
    }

    @Test(arguments: [
        ("*", 8), ("apple", 4), ("apple.sandbox", 2), ("google.get", 1), ("goo", 0), ("google.", 0), ("", 0),
    ])
    func aPatternNamesWholeWords(pattern: String, endpoints: Int) {
        #expect(StoreEndpointName.allCases.filter { $0.matches(pattern) }.count == endpoints)
    }
}
