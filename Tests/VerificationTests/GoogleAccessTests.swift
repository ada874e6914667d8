import Commerce
import HTTP
import ServiceRuntime
import Signing
import TestSupport
import Testing

@testable import Verification

@LoopActor
@Suite struct GoogleAccessTests {
    private func authorization(_ request: OutgoingRequest) -> String {
        request.headers.first { $0.0 == "Authorization" }?.1 ?? ""
    }

    private func look(_ verifier: PurchaseVerifier) async throws -> Verdict {
        let submission = try World.submission(PlayPurchase.token, store: .googlePlay)
        return await verifier.verify(submission, catalogue: try World.catalogue())
    }

    /// Hands out tokens "t1", "t2", … and answers purchases by the token that asks.
    private func store(
        expiresIn: String = "3599", accepts: @escaping @LoopActor @Sendable (String) -> Bool = { _ in true }
    ) -> CannedStore {
        var minted = 0
        return CannedStore { request in
            if request.url == World.tokenURL {
                minted += 1
                let answer = World.tokenAnswer("t\(minted)", expiresIn: expiresIn)
                try? await pause(for: .milliseconds(5))
                return answer
            }
            let token = request.headers.first { $0.0 == "Authorization" }?.1 ?? ""
            return accepts(token) ? PlayPurchase().answer : PlayPurchase.error(401, "authError")
        }
    }

    @Test func assertionIsSignedByTheServiceAccount() async throws {
        let store = store()
        _ = try await look(World.verifier(store))
        let request = try #require(store.tokenRequests.first)
        #expect(request.method == .post)
        #expect(request.headers.contains { $0 == ("Content-Type", "application/x-www-form-urlencoded") })
        let body = String(decoding: request.body ?? [], as: UTF8.self)
        let prefix = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        #expect(body.hasPrefix(prefix))
        let key = try RS256Key(pem: try World.googleKeyPEM.get()).publicKey
        let assertion = try JWT.verify(String(body.dropFirst(prefix.count)), key: key)
        #expect(try assertion.header.string("kid") == "00aa11bb22cc")
        #expect(try assertion.claims.string("iss") == "billing@example.iam.gserviceaccount.com")
        #expect(try assertion.claims.string("aud") == World.tokenURL)
        #expect(try assertion.claims.string("scope") == "https://www.googleapis.com/auth/androidpublisher")
        #expect(try assertion.claims.int64("exp") - assertion.claims.int64("iat") == 3600)
    }

    @Test func hundredCallsShareOneToken() async throws {
        let store = store()
        let verifier = try World.verifier(store)
        let verdicts = try await lookOften(verifier, 100)
        #expect(verdicts.count == 100 && verdicts.allSatisfy { $0.hasPrefix("verified") })
        #expect(store.tokenRequests.count == 1 && store.purchaseRequests.count == 100)
    }

    @Test func hundredCallsWithARefusedTokenRenewItOnce() async throws {
        let store = store { $0 != "Bearer t1" }
        let verifier = try World.verifier(store)
        let verdicts = try await lookOften(verifier, 100)
        #expect(verdicts.allSatisfy { $0.hasPrefix("verified") })
        #expect(store.tokenRequests.count == 2)
        #expect(store.purchaseRequests.count <= 200)
    }

    @Test func lateRefusalOfAnOldTokenDoesNotCostTheNewOne() async throws {
        var asked = 0
        let store = CannedStore { request in
            if request.url == World.tokenURL {
                asked += 1
                return World.tokenAnswer("t\(asked)")
            }
            if request.headers.contains(where: { $0.1 == "Bearer t2" }) { return PlayPurchase().answer }
            // The second call's refusal arrives long after the first call's led to a new token.
            if request.url.contains("late") { try? await pause(for: .milliseconds(50)) }
            return PlayPurchase.error(401, "authError")
        }
        let verifier = try World.verifier(store)
        let catalogue = try World.catalogue()
        let submission = try World.submission("late" + PlayPurchase.token, store: .googlePlay)
        let late = Task { @LoopActor in await verifier.verify(submission, catalogue: catalogue) }
        try await eventually { !store.purchaseRequests.isEmpty }
        #expect(try await look(verifier).summary.hasPrefix("verified"))
        #expect(await late.value.summary.hasPrefix("verified"))
        #expect(store.tokenRequests.count == 2)
    }

    private func lookOften(_ verifier: PurchaseVerifier, _ count: Int) async throws -> [String] {
        let submission = try World.submission(PlayPurchase.token, store: .googlePlay)
        let catalogue = try World.catalogue()
        let looks = (1...count).map { _ in
            Task { @LoopActor in await verifier.verify(submission, catalogue: catalogue).summary }
        }
        var summaries: [String] = []
        for look in looks { summaries.append(await look.value) }
        return summaries
    }

    @Test func cancelledCallDoesNotTakeTheTokenFromTheOthers() async throws {
        let store = store()
        let verifier = try World.verifier(store)
        let submission = try World.submission(PlayPurchase.token, store: .googlePlay)
        let catalogue = try World.catalogue()
        let first = Task { @LoopActor in await verifier.verify(submission, catalogue: catalogue) }
        try await pause(for: .milliseconds(1))
        first.cancel()
        #expect(try await look(verifier).summary.hasPrefix("verified"))
        _ = await first.value
        #expect(store.tokenRequests.count == 1)
    }

    @Test func refusalOfAFreshTokenTooIsOurConfigurationAndCostsOneRenewal() async throws {
        let store = store { _ in false }
        let clock = ManualClock(World.now)
        let verifier = try World.verifier(store, clock: clock.wallClock)
        let verdict = try await look(verifier)
        #expect(verdict.summary == "open our-configuration" && verdict.retryAfter == .seconds(5))
        #expect(store.purchaseRequests.count == 2 && store.tokenRequests.count == 2)
        for _ in 1...10 { _ = try await look(verifier) }
        #expect(store.tokenRequests.count == 2)
        clock.advance(.seconds(6))
        _ = try await look(verifier)
        #expect(store.tokenRequests.count == 3)
    }

    @Test func tokenIsRenewedBeforeItEndsWhileTheOldOneServes() async throws {
        let store = store(expiresIn: "\"3600\"")
        let clock = ManualClock(World.now)
        let verifier = try World.verifier(store, clock: clock.wallClock)
        _ = try await look(verifier)
        clock.advance(.seconds(3299))
        _ = try await look(verifier)
        #expect(store.tokenRequests.count == 1)
        clock.advance(.seconds(2))
        _ = try await look(verifier)
        #expect(authorization(store.purchaseRequests[2]) == "Bearer t1")
        try await eventually { store.tokenRequests.count == 2 }
        try await pause(for: .milliseconds(20))
        _ = try await look(verifier)
        #expect(authorization(store.purchaseRequests[3]) == "Bearer t2")
    }

    @Test func endedTokenIsNotUsed() async throws {
        let store = store(expiresIn: "60")
        let clock = ManualClock(World.now)
        let verifier = try World.verifier(store, clock: clock.wallClock)
        _ = try await look(verifier)
        clock.advance(.seconds(61))
        _ = try await look(verifier)
        #expect(store.purchaseRequests.map(authorization) == ["Bearer t1", "Bearer t2"])
    }

    @Test(arguments: [
        (
            HTTPAnswer.json(400, #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#),
            "open our-configuration"
        ),
        (.json(401, #"{"error":"invalid_client"}"#), "open our-configuration"),
        (.json(503, "busy"), "open store-unavailable"), (.json(429, "{}"), "open store-throttled"),
        (.json(200, "<html>"), "open store-unavailable"), (.json(200, "{}"), "open store-unavailable"),
        (.json(200, #"{"access_token":"a\r\nX-Evil: 1"}"#), "open store-unavailable"),
        (.json(200, #"{"access_token":"","expires_in":3599}"#), "open store-unavailable"),
        (.json(200, #"{"access_token":"a","expires_in":"soon"}"#), "open store-unavailable"),
    ])
    func troubleWithTheTokenKeepsThePurchaseOpen(answer: HTTPAnswer, expected: String) async throws {
        let store = CannedStore { _ in answer }
        let verifier = try World.verifier(store)
        #expect(try await look(verifier).summary == expected)
        // The failure is remembered for a moment: many waiting receipts do not become many token requests.
        for _ in 1...20 { #expect(try await look(verifier).summary == expected) }
        #expect(store.requests.count == 1)
    }

    @Test func fixedTokenIsUsedAsItIs() async throws {
        let accepted = CannedStore(answers: PlayPurchase().answer)
        let verifier = try World.verifier(accepted) { $0.google?.credentials = .accessToken(Secret("fixed")) }
        #expect(try await look(verifier).summary.hasPrefix("verified"))
        #expect(accepted.requests.map(authorization) == ["Bearer fixed"])
        let refused = CannedStore(answers: PlayPurchase.error(401, "authError"))
        let other = try World.verifier(refused) { $0.google?.credentials = .accessToken(Secret("fixed")) }
        #expect(try await look(other).summary == "open our-configuration")
        #expect(refused.requests.count == 1)
    }
}
