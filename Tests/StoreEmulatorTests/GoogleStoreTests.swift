import HTTP
import ServiceRuntime
import Signing
import StoreEmulator
import TestSupport
import Testing

@Suite @LoopActor struct GoogleStoreTests {
    private static let gems = PurchaseRequest(store: .google, player: "ben", storeProductID: "gems_500")

    private func reason(_ answer: HTTPAnswer) throws -> String {
        try JSONView.parse(answer.body).object("error").elements("errors")[0].string("reason")
    }

    private func get(_ scene: EmulatorScene, _ token: String) async throws -> JSONView {
        let answer = try await scene.send(.get, scene.productURL(token), token: scene.accessToken())
        #expect(answer.status == 200)
        return try JSONView.parse(answer.body)
    }

    // MARK: OAuth

    @Test func anAssertionBuysAnAccessTokenThatEnds() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            let answer = try await scene.exchange(scene.assertion())
            #expect(answer.status == 200)
            let body = try JSONView.parse(answer.body)
            #expect(try body.string("token_type") == "Bearer")
            #expect(try body.int64("expires_in") == 3599)
            let token = try body.string("access_token")
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: token).status == 200)
            scene.clock.advance(.seconds(3601))
            let late = try await scene.send(.get, scene.productURL(purchase.id), token: token)
            #expect(late.status == 401)
            #expect(try JSONView.parse(late.body).object("error").string("status") == "UNAUTHENTICATED")
        }
    }

    struct BadAssertion: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let error: String
        let change: @Sendable (inout GoogleClaims) throws -> Void
    }

    @Test(arguments: [
        BadAssertion(testDescription: "another key", error: "invalid_grant") { $0.key = try .generate() },
        BadAssertion(testDescription: "unknown account", error: "invalid_grant") { $0.issuer = "nobody@example.com" },
        BadAssertion(testDescription: "wrong audience", error: "invalid_grant") { $0.audience = "https://example.com" },
        BadAssertion(testDescription: "over an hour", error: "invalid_grant") { $0.life = 3601 },
        BadAssertion(testDescription: "expired", error: "invalid_grant") { $0.issued -= 4000 },
        BadAssertion(testDescription: "from the future", error: "invalid_grant") { $0.issued += 4000 },
        BadAssertion(testDescription: "another scope", error: "invalid_scope") { $0.scope = "openid" },
    ])
    func aBadAssertionIsRefusedInOAuthsOwnFormat(bad: BadAssertion) async throws {
        try await EmulatorScene.with { scene in
            var failure: (any Error)?
            let assertion = try scene.assertion { claims in
                do { try bad.change(&claims) } catch { failure = error }
            }
            #expect(failure == nil)
            let answer = try await scene.exchange(assertion)
            #expect(answer.status == 400)
            #expect(try JSONView.parse(answer.body).string("error") == bad.error)
            for body in ["", "grant_type=password&assertion=\(assertion)", "assertion=%zz"] {
                #expect(try await scene.send(.post, scene.emulator.tokenURL, body: body).status == 400)
            }
        }
    }

    @Test func aFixedAccessTokenIsAcceptedWhereConfigured() async throws {
        try await EmulatorScene.with({ $0.googleStaticAccessToken = "fixed" }) { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: "fixed").status == 200)
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: "other").status == 401)
        }
    }

    // MARK: Reading

    @Test func anOrdinaryPurchaseHasAnOrderAndNoType() async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.accountToken = "u-5fd1c0"
            let body = try await get(scene, scene.emulator.purchase(request).id)
            #expect(try body.string("kind") == "androidpublisher#productPurchase")
            #expect(try body.string("purchaseTimeMillis") == String(scene.clock.now.value))
            #expect(try body.int64("purchaseState") == 0)
            #expect(try body.int64("consumptionState") == 0)
            #expect(try body.int64("acknowledgementState") == 0)
            #expect(try body.string("orderId").hasPrefix("GPA."))
            #expect(try body.string("obfuscatedExternalAccountId") == "u-5fd1c0")
            #expect(body["purchaseType"] == nil && body["quantity"] == nil)
        }
    }

    @Test func unusualPurchasesShowWhatIsUnusual() async throws {
        try await EmulatorScene.with { scene in
            var promo = Self.gems
            promo.isPromo = true
            let promoBody = try await get(scene, scene.emulator.purchase(promo).id)
            #expect(try promoBody.int64("purchaseType") == 1)
            #expect(promoBody["orderId"] == nil)
            var test = Self.gems
            test.isTest = true
            #expect(try await get(scene, scene.emulator.purchase(test).id).int64("purchaseType") == 0)
            var many = Self.gems
            many.quantity = 3
            #expect(try await get(scene, scene.emulator.purchase(many).id).int64("quantity") == 3)
            var refunded = Self.gems
            refunded.state = .refunded
            #expect(try await get(scene, scene.emulator.purchase(refunded).id).int64("purchaseState") == 1)
        }
    }

    @Test func aPendingPurchaseIsPaidOrCancelledLater() async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.state = .pending
            let paid = try scene.emulator.purchase(request)
            let lapsed = try scene.emulator.purchase(request)
            let before = try await get(scene, paid.id)
            #expect(try before.int64("purchaseState") == 2)
            #expect(before["orderId"] == nil)
            try scene.emulator.move(paid.id, to: .purchased)
            try scene.emulator.move(lapsed.id, to: .cancelled)
            #expect(try await get(scene, paid.id).int64("purchaseState") == 0)
            #expect(try await get(scene, lapsed.id).int64("purchaseState") == 1)
            #expect(throws: EmulatorError.self) { try scene.emulator.move(lapsed.id, to: .purchased) }
        }
    }

    @Test func theWrongProductPackageOrTokenIsRefused() async throws {
        try await EmulatorScene.with { scene in
            let access = try await scene.accessToken()
            var foreign = Self.gems
            foreign.appID = "com.othergame"
            let other = try scene.emulator.purchase(foreign).id
            let own = try scene.emulator.purchase(Self.gems).id
            let unknown = String(repeating: "a", count: 24) + ".AO-J1" + String(repeating: "b", count: 90)
            for (url, status, expected) in [
                (scene.productURL(own, product: "gems_100"), 400, "purchaseTokenDoesNotMatchProductId"),
                (scene.productURL(other), 400, "purchaseTokenDoesNotMatchPackageName"),
                (scene.productURL(own, package: "com.nobody"), 404, "applicationNotFound"),
                (scene.productURL(unknown), 404, "purchaseTokenNotFound"),
                (scene.productURL("short"), 400, "invalid"),
                (scene.productURL(own + "%21"), 400, "invalid"),
            ] {
                let answer = try await scene.send(.get, url, token: access)
                #expect(answer.status == status)
                #expect(try reason(answer) == expected)
            }
        }
    }

    @Test func aFreshTokenMayBeUnknownForSomeReads() async throws {
        try await EmulatorScene.with { scene in
            let access = try await scene.accessToken()
            var request = Self.gems
            request.unknownReads = 1
            let purchase = try scene.emulator.purchase(request)
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: access).status == 404)
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: access).status == 200)
        }
    }

    // MARK: Consuming

    @Test func consumingAcknowledgesAndWorksOnce() async throws {
        try await EmulatorScene.with { scene in
            let access = try await scene.accessToken()
            let url = scene.productURL(try scene.emulator.purchase(Self.gems).id)
            let first = try await scene.send(.post, url + ":consume", token: access)
            #expect(first.status == 204)
            #expect(first.body.isEmpty)
            let body = try JSONView.parse(await scene.send(.get, url, token: access).body)
            #expect(try body.int64("consumptionState") == 1)
            #expect(try body.int64("acknowledgementState") == 1)
            let second = try await scene.send(.post, url + ":consume", token: access)
            #expect(second.status == 400)
            #expect(try reason(second) == "productNotOwnedByUser")
        }
    }

    @Test func acknowledgingLeavesItUnconsumedAndMayBeRepeated() async throws {
        try await EmulatorScene.with { scene in
            let access = try await scene.accessToken()
            let purchase = try scene.emulator.purchase(Self.gems)
            for _ in 0..<2 {
                let answer = try await scene.send(
                    .post, scene.productURL(purchase.id) + ":acknowledge", token: access, body: "{}")
                #expect(answer.status == 200)
                #expect(answer.body.isEmpty)
            }
            let record = try #require(scene.emulator.record(purchase.id, in: .google))
            #expect(record.isAcknowledged && !record.isConsumed)
        }
    }

    @Test func whatIsNotPaidCannotBeConsumedOrAcknowledged() async throws {
        try await EmulatorScene.with { scene in
            let access = try await scene.accessToken()
            for state in [PurchaseState.pending, .cancelled, .refunded] {
                var request = Self.gems
                request.state = state
                let url = scene.productURL(try scene.emulator.purchase(request).id)
                #expect(try await scene.send(.post, url + ":consume", token: access).status == 400)
                #expect(try await scene.send(.post, url + ":acknowledge", token: access).status == 400)
                #expect(try await scene.send(.post, url + ":destroy", token: access).status == 404)
                #expect(try await scene.send(.post, url + ":consume").status == 401)
            }
        }
    }

    @Test func googleTakesBackWhatNobodyAcknowledgesInThreeDays() async throws {
        try await EmulatorScene.with { scene in
            let forgotten = try scene.emulator.purchase(Self.gems)
            let kept = try scene.emulator.purchase(Self.gems)
            let access = try await scene.accessToken()
            _ = try await scene.send(.post, scene.productURL(kept.id) + ":acknowledge", token: access)
            scene.clock.advance(.seconds(3 * 86_400 + 1))
            #expect(try await get(scene, forgotten.id).int64("purchaseState") == 1)
            #expect(try await get(scene, kept.id).int64("purchaseState") == 0)
            let record = try #require(scene.emulator.record(forgotten.id, in: .google))
            #expect(scene.emulator.duty(of: record) == .may)
        }
    }
}
