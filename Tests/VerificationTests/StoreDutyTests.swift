import Commerce
import HTTP
import ServiceRuntime
import Testing

@testable import Verification

/// Consume and acknowledge: whatever was lost on the way, they may be repeated until the store knows.
@LoopActor
@Suite struct StoreDutyTests {
    private func duty(_ kind: StoreDuty.Kind, package: String = "com.mygame") throws -> StoreDuty {
        StoreDuty(
            kind, package: try PackageName(validating: package),
            storeProductID: try StoreProductID(validating: "gems_500"),
            token: try PurchaseToken(validating: PlayPurchase.token))
    }

    private func outcome(
        _ kind: StoreDuty.Kind, _ store: CannedStore, attempt: VerificationAttempt = .first
    ) async throws -> DutyOutcome {
        try await World.verifier(store).perform(try duty(kind), attempt: attempt)
    }

    @Test(arguments: [(StoreDuty.Kind.googleConsume, ":consume"), (.googleAcknowledge, ":acknowledge")])
    func storeIsToldOnce(kind: StoreDuty.Kind, verb: String) async throws {
        for answer in [HTTPAnswer(status: 200, body: []), .json(200, "{}"), HTTPAnswer(status: 204, body: [])] {
            let store = CannedStore(answers: answer)
            #expect(try await outcome(kind, store) == .done)
            let request = try #require(store.purchaseRequests.first)
            #expect(request.method == .post && store.purchaseRequests.count == 1)
            #expect(request.url.hasSuffix("/gems_500/tokens/\(PlayPurchase.token)\(verb)"))
        }
    }

    @Test(
        arguments: [
            (StoreDuty.Kind.googleConsume, ["consumptionState": "1"], DutyOutcome.done),
            (.googleAcknowledge, ["acknowledgementState": "1"], .done),
            (.googleAcknowledge, ["consumptionState": "1"], .done),
            (.googleConsume, ["purchaseState": "1"], .impossible(.cancelled)),
            (.googleAcknowledge, ["purchaseState": "1"], .impossible(.cancelled)),
            (.googleConsume, ["consumptionState": "1", "purchaseState": "1"], .done),
            (.googleConsume, ["acknowledgementState": "1"], .retry(after: nil, cause: .unknownState)),
            (.googleAcknowledge, [:], .retry(after: nil, cause: .unknownState)),
        ] as [(StoreDuty.Kind, [String: String?], DutyOutcome)])
    func refusedDutyIsDecidedByThePurchase(
        kind: StoreDuty.Kind, changes: [String: String?], expected: DutyOutcome
    ) async throws {
        for reason in ["productNotOwnedByUser", "alreadyAcknowledged", "invalid"] {
            let store = CannedStore(answers: PlayPurchase.error(400, reason), PlayPurchase(changes).answer)
            #expect(try await outcome(kind, store) == expected)
            #expect(store.purchaseRequests.map(\.method) == [.post, .get])
        }
    }

    @Test(arguments: [
        (HTTPAnswer(status: 503, body: []), DutyOutcome.retry(after: nil, cause: .storeUnavailable)),
        (PlayPurchase.error(409, "concurrentUpdate"), .retry(after: nil, cause: .storeUnavailable)),
        (PlayPurchase.error(403, "forbidden"), .retry(after: .seconds(30), cause: .ourConfiguration)),
        (
            PlayPurchase.error(429, "", headers: [("Retry-After", "7")]),
            .retry(after: .seconds(7), cause: .storeThrottled)
        ),
        (PlayPurchase.error(404, "purchaseTokenNotFound"), .retry(after: .seconds(2), cause: .tooNew)),
        (PlayPurchase.error(410, "purchaseTokenNoLongerValid"), .impossible(.purchaseExpired)),
    ])
    func troubleIsRetriedAndOnlyAGonePurchaseGivenUp(answer: HTTPAnswer, expected: DutyOutcome) async throws {
        #expect(try await outcome(.googleConsume, CannedStore(answers: answer)) == expected)
    }

    @Test func tokenUnknownForGoodIsGivenUp() async throws {
        let store = CannedStore(answers: PlayPurchase.error(404, "purchaseTokenNotFound"))
        let late = VerificationAttempt(number: 9, age: .seconds(60))
        #expect(try await outcome(.googleConsume, store, attempt: late) == .impossible(.unknownPurchase))
    }

    @Test func dutyForAnotherAppIsNotSent() async throws {
        let verifier = try World.verifier(.silent())
        let outcome = await verifier.perform(try duty(.googleConsume, package: "com.other"))
        #expect(outcome == .retry(after: .seconds(30), cause: .ourConfiguration))
        let without = try World.verifier(.silent()) { $0.google = nil }
        #expect(
            await without.perform(try duty(.googleConsume)) == .retry(after: .seconds(30), cause: .ourConfiguration))
    }
}
