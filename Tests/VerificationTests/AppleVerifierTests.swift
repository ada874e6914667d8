import Commerce
import HTTP
import ServiceRuntime
import Signing
import TestSupport
import Testing

@testable import Verification

@LoopActor
@Suite struct AppleVerifierTests {
    private func verdict(
        _ payload: Payload, product: String? = "gems_pack_medium", accountToken: String? = nil,
        attempt: VerificationAttempt = .first, store: CannedStore,
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) async throws -> Verdict {
        let submission = try World.submission(try payload.signed(), product: product, accountToken: accountToken)
        return try await World.verifier(store, change)
            .verify(submission, catalogue: try World.catalogue(), attempt: attempt)
    }

    private func local(
        _ payload: Payload, product: String? = "gems_pack_medium", accountToken: String? = nil,
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) async throws -> Verdict {
        try await verdict(payload, product: product, accountToken: accountToken, store: .silent()) {
            $0.apple?.confirmation = .local
            try change(&$0)
        }
    }

    // MARK: What the signed transaction alone decides

    @Test(
        arguments: [
            ([:], "gems_pack_medium", "verified 1 × gems_pack_medium: 550 gems"),
            ([:], nil, "verified 1 × gems_pack_medium: 550 gems"),
            (["quantity": "3"], nil, "verified 3 × gems_pack_medium: 1650 gems"),
            (["quantity": nil], nil, "verified 1 × gems_pack_medium: 550 gems"),
            (["quantity": "0"], nil, "open unknown-state"),
            (["quantity": "-2"], nil, "open unknown-state"),
            (["quantity": "2147483648"], nil, "open unknown-state"),
            (["quantity": "1.5"], nil, "open unknown-state"),
            (["purchaseDate": "1793000000000.75"], nil, "verified 1 × gems_pack_medium: 550 gems"),
            (["price": "\"a lot\"", "currency": "7"], nil, "verified 1 × gems_pack_medium: 550 gems"),
            (["somethingNew": "{\"deep\":[1,{}]}"], nil, "verified 1 × gems_pack_medium: 550 gems"),
            (
                ["type": "\"Non-Consumable\"", "productId": "\"com.mygame.doubler\""], "doubler",
                "verified 1 × doubler: 10 gems + doubler"
            ),
            (["revocationDate": "1793000050000"], nil, "rejected refunded"),
            (["inAppOwnershipType": "\"FAMILY_SHARED\""], nil, "rejected family-shared"),
            (["inAppOwnershipType": "\"ASSIGNED\""], nil, "rejected family-shared"),
            (["inAppOwnershipType": "\"BORROWED\""], nil, "open unknown-state"),
            (
                [
                    "type": "\"Non-Consumable\"", "productId": "\"com.mygame.doubler\"",
                    "inAppOwnershipType": "\"FAMILY_SHARED\"",
                ], "doubler", "verified 1 × doubler: 0 gems + doubler"
            ),
            (["type": "\"Auto-Renewable Subscription\""], nil, "rejected unsupported-product"),
            (["type": "\"Non-Renewing Subscription\""], nil, "rejected unsupported-product"),
            (["type": "\"Something New\""], nil, "open unknown-state"),
            (["type": "\"Non-Consumable\""], nil, "open misconfigured-product"),
            (["type": "\"Non-Consumable\"", "originalTransactionId": nil], nil, "open unknown-state"),
            (["productId": "\"com.mygame.gems.77\""], "gems_pack_medium", "open unknown-product"),
            (["productId": "\"com.mygame.gems.77\""], nil, "open unknown-product"),
            ([:], "gems_pack_huge", "rejected product-mismatch"),
            ([:], "renamed_since", "open unknown-product"),
        ] as [([String: String?], String?, String)])
    func signedTransactionIsJudged(changes: [String: String?], product: String?, expected: String) async throws {
        #expect(try await local(Payload(changes), product: product).summary == expected)
    }

    @Test func verifiedPurchaseCarriesWhatTheLedgerNeeds() async throws {
        let verdict = try await local(Payload(["quantity": "2"]))
        let purchase = try #require(verdict.purchases.first)
        #expect(purchase.key.text == "apple:Production:2000001234500777")
        #expect(purchase.key.digest == Array(Digest.sha256("apple:Production:2000001234500777").prefix(16)))
        #expect(purchase.storeProductID.rawValue == "com.mygame.gems.500")
        #expect(purchase.transactionID?.rawValue == "2000001234500777")
        #expect(purchase.purchasedAtMilliseconds == 1_793_000_000_000)
        #expect(purchase.priceMilliunits == 9980 && purchase.priceCurrency == "EUR" && purchase.storefront == "DEU")
        #expect(purchase.environment == .production && !purchase.isTest && purchase.duty == nil)
    }

    @Test func restoreOfANonConsumableHasTheKeyOfTheFirstPurchase() async throws {
        let restored = Payload([
            "type": "\"Non-Consumable\"", "productId": "\"com.mygame.doubler\"", "transactionId": "\"9001\"",
        ])
        let purchase = try #require(try await local(restored, product: "doubler").purchases.first)
        #expect(purchase.key.text == "apple:Production:2000001234500777")
    }

    @Test func refusalKnowsTheKeyOnceIdentityIsProved() async throws {
        for changes in [["revocationDate": "1"], ["inAppOwnershipType": "\"FAMILY_SHARED\""]] as [[String: String?]] {
            let verdict = try await local(Payload(changes))
            #expect(verdict.knownKey?.text == "apple:Production:2000001234500777")
        }
        #expect(try await local(Payload(["bundleId": "\"com.other\""])).knownKey == nil)
    }

    @Test(
        arguments: [
            (nil, "ada", nil), (World.accountToken().uppercased(), "ada", nil), (World.accountToken(), "ada", nil),
            ("0B7C3C1E-5F0A-4C59-9D0E-1F2A3B4C5D6E", "ada", "0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e"),
        ] as [(String?, String, String?)])
    func accountTokenOfThePlayerIsAccepted(inStore: String?, player: String, named: String?) async throws {
        let payload = Payload(["appAccountToken": inStore.map { "\"\($0)\"" }])
        #expect(try await local(payload, accountToken: named).summary.hasPrefix("verified"))
    }

    // MARK: Sandbox

    @Test func sandboxPurchaseIsCreditedByPolicyOnly() async throws {
        let payload = Payload(["environment": "\"Sandbox\""])
        let ada = try PlayerID(validating: "ada")
        let bob = try PlayerID(validating: "bob")
        for (policy, expected) in [
            (SandboxPolicy.nobody, "rejected sandbox-not-allowed"), (.listed([bob]), "rejected sandbox-not-allowed"),
            (.listed([ada]), "verified 1 × gems_pack_medium: 550 gems"),
            (.everybody, "verified 1 × gems_pack_medium: 550 gems"),
        ] {
            let verdict = try await local(payload) { $0.sandbox = policy }
            #expect(verdict.summary == expected)
            if let purchase = verdict.purchases.first {
                #expect(purchase.isTest && purchase.environment == .sandbox)
                #expect(purchase.key.text == "apple:Sandbox:2000001234500777")
            }
        }
    }

    @Test func testDeploymentTakesSandboxAndNoRealPurchases() async throws {
        let test = Payload(["environment": "\"Sandbox\""])
        let sandbox = try await local(test) {
            $0.apple?.environments = [.sandbox]
            $0.sandbox = .everybody
        }
        #expect(sandbox.summary.hasPrefix("verified"))
        let real = try await local(Payload()) { $0.apple?.environments = [.sandbox] }
        #expect(real.summary == "rejected wrong-environment")
        let strict = try await local(test) {
            $0.apple?.environments = [.production]
            $0.sandbox = .everybody
        }
        #expect(strict.summary == "rejected wrong-environment")
    }

    @Test func productionOnlyDeploymentDoesNotAskTheSandbox() async throws {
        for (answer, expected) in [
            (HTTPAnswer.json(404, #"{"errorCode":4040010}"#), "open too-new"),
            (.json(401, "Unauthenticated"), "open our-configuration"),
        ] {
            let store = CannedStore(answers: answer)
            let verdict = try await verdict(Payload(), store: store) { $0.apple?.environments = [.production] }
            #expect(verdict.summary == expected && store.requests.count == 1)
        }
    }

    @Test func eachAppIsAskedAboutWithATokenOfItsOwn() async throws {
        let lite = Payload(["bundleId": "\"com.mygame.lite\""])
        for (payload, bundle) in [(Payload(), "com.mygame"), (lite, "com.mygame.lite")] {
            let store = CannedStore(answers: try payload.answer())
            let verdict = try await verdict(payload, store: store) {
                $0.apple?.bundleIDs = ["com.mygame", "com.mygame.lite"]
            }
            #expect(verdict.summary.hasPrefix("verified"))
            let header = try #require(store.requests.first?.headers.first { $0.0 == "Authorization" }?.1)
            let key = try ES256Key(pem: try World.appleKeyPEM.get()).publicKey
            let token = try JWT.verify(String(header.dropFirst("Bearer ".count)), key: key)
            #expect(try token.claims.string("bid") == bundle)
        }
        // The other of our apps is still not this purchase's.
        let store = CannedStore(answers: try lite.answer())
        let verdict = try await verdict(Payload(), store: store) {
            $0.apple?.bundleIDs = ["com.mygame", "com.mygame.lite"]
        }
        #expect(verdict.summary == "open store-unavailable")
    }

    // MARK: Confirmation

    @Test func appleIsAskedWithASelfMadeToken() async throws {
        let store = CannedStore(answers: try Payload().answer())
        #expect(try await verdict(Payload(), store: store).summary == "verified 1 × gems_pack_medium: 550 gems")
        let request = try #require(store.requests.first)
        #expect(store.requests.count == 1 && request.method == .get)
        #expect(request.url == "https://api.storekit.apple.com/inApps/v1/transactions/2000001234500777")
        let header = try #require(request.headers.first { $0.0 == "Authorization" }?.1)
        let key = try ES256Key(pem: try World.appleKeyPEM.get()).publicKey
        let token = try JWT.verify(String(header.dropFirst("Bearer ".count)), key: key)
        #expect(try token.header.string("kid") == "EXAMPLEK01")
        #expect(try token.claims.string("iss") == "11111111-2222-4333-8444-555555555555")
        #expect(try token.claims.string("aud") == "appstoreconnect-v1" && token.claims.string("bid") == "com.mygame")
        let life = try token.claims.int64("exp") - token.claims.int64("iat")
        #expect((60...3600).contains(life))
    }

    @Test(
        arguments: [
            (["revocationDate": "1793000050000"], "rejected refunded"),
            (["quantity": "2"], "verified 2 × gems_pack_medium: 1100 gems"),
            (["appAccountToken": "\"0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e\""], "rejected belongs-to-another-player"),
            (["productId": "\"com.mygame.gems.9000\""], "rejected product-mismatch"),
            (["transactionId": "\"1\""], "open store-unavailable"),
            (["bundleId": "\"com.other\""], "open store-unavailable"),
            (["transactionId": nil], "open store-unavailable"),
        ] as [([String: String?], String)])
    func newestStateOfAppleDecides(changes: [String: String?], expected: String) async throws {
        let store = CannedStore(answers: try Payload(changes).answer())
        #expect(try await verdict(Payload(), store: store).summary == expected)
    }

    @Test func answerSignedBySomebodyElseIsNoAnswer() async throws {
        let stranger = try MintedChain.make(around: World.now)
        let signed = try stranger.sign(Array(Payload().json.utf8))
        let store = CannedStore(answers: .json(200, #"{"signedTransactionInfo":"\#(signed)"}"#))
        #expect(try await verdict(Payload(), store: store).summary == "open store-unavailable")
    }

    @Test func unknownInProductionIsLookedForInTheSandboxOnce() async throws {
        let store = CannedStore(
            answers: .json(404, #"{"errorCode":4040010}"#), try Payload(["environment": "\"Sandbox\""]).answer())
        let verdict = try await verdict(Payload(), store: store) { $0.sandbox = .everybody }
        #expect(verdict.summary == "verified 1 × gems_pack_medium: 550 gems")
        #expect(verdict.purchases.first?.environment == .sandbox)
        #expect(
            store.requests.map(\.url) == [
                "https://api.storekit.apple.com/inApps/v1/transactions/2000001234500777",
                "https://api.storekit-sandbox.apple.com/inApps/v1/transactions/2000001234500777",
            ])
    }

    @Test func sandboxTransactionIsAskedForInTheSandbox() async throws {
        let payload = Payload(["environment": "\"Sandbox\""])
        let store = CannedStore(answers: try payload.answer())
        _ = try await verdict(payload, store: store) { $0.sandbox = .everybody }
        #expect(store.requests.map { $0.url.contains("storekit-sandbox") } == [true])
    }

    @Test func unknownInBothIsRefusedOnlyAfterLooksAndTime() async throws {
        for (number, seconds, expected) in [
            (1, 0, "open too-new"), (9, 10, "open too-new"), (8, 4000, "open too-new"),
            (9, 60, "rejected unknown-purchase"),
        ] {
            let store = CannedStore(answers: .json(404, #"{"errorCode":4040010}"#))
            let verdict = try await verdict(
                Payload(), attempt: VerificationAttempt(number: number, age: .seconds(seconds)), store: store)
            #expect(verdict.summary == expected)
            #expect(verdict.knownKey?.text == "apple:Production:2000001234500777")
            #expect(store.requests.count == 2)
        }
    }

    @Test func productionThatLetsNobodyInMakesTheSandboxsNoWorthless() async throws {
        let unauthenticated = HTTPAnswer.json(401, "Unauthenticated\n\nRequest ID: X")
        let unknown = HTTPAnswer.json(404, #"{"errorCode":4040010}"#)
        let late = VerificationAttempt(number: 50, age: .seconds(90_000))
        let store = CannedStore(answers: unauthenticated, unknown)
        #expect(try await verdict(Payload(), attempt: late, store: store).summary == "open our-configuration")
        let nowhere = CannedStore(answers: unauthenticated)
        #expect(try await verdict(Payload(), attempt: late, store: nowhere).summary == "open our-configuration")
        #expect(nowhere.requests.count == 2)
        let released = CannedStore(answers: unauthenticated, try Payload(["environment": "\"Sandbox\""]).answer())
        let verdict = try await verdict(Payload(), store: released) { $0.sandbox = .everybody }
        #expect(verdict.summary.hasPrefix("verified"))
    }

    @Test(arguments: [
        (HTTPAnswer.json(400, #"{"errorCode":4000006}"#), "rejected malformed-receipt"),
        (.json(400, #"{"errorCode":4000002}"#), "open our-configuration"),
        (.json(403, "no"), "open our-configuration"), (.json(500, #"{"errorCode":5000000}"#), "open store-unavailable"),
        (.json(404, #"{"errorCode":4040004}"#), "open store-unavailable"),
        (.json(404, "nginx"), "open our-configuration"),
        (.json(502, "<html>"), "open store-unavailable"), (.json(302, ""), "open store-unavailable"),
        (.json(429, #"{"errorCode":4290000}"#), "open store-throttled"),
    ])
    func applesTroubleKeepsThePurchaseOpen(answer: HTTPAnswer, expected: String) async throws {
        #expect(try await verdict(Payload(), store: CannedStore(answers: answer)).summary == expected)
    }

    @Test(arguments: [
        ("1793000065000", Duration.seconds(5)), ("1793000060001", .seconds(1)), ("1792000000000", .seconds(1)),
        ("1893000000000", .seconds(3600)), ("17", .seconds(17)), ("999999", .seconds(3600)), ("soon", .seconds(5)),
    ])
    func retryAfterIsReadAsMillisecondsAndKeptSane(header: String, expected: Duration) async throws {
        let answer = HTTPAnswer.json(429, #"{"errorCode":4290000}"#, headers: [("Retry-After", header)])
        let verdict = try await verdict(Payload(), store: CannedStore(answers: answer))
        #expect(verdict.summary == "open store-throttled" && verdict.retryAfter == expected)
    }

    @Test func tokenIsReusedUntilShortlyBeforeItsEnd() async throws {
        var now = World.now
        let store = CannedStore(answers: try Payload().answer())
        let clock = ManualClock(now)
        let verifier = try World.verifier(store, clock: clock.wallClock)
        let submission = try World.submission(try Payload().signed())
        for seconds in [0, 200, 250, 260] {
            now = World.now + .seconds(seconds)
            clock.set(now)
            _ = await verifier.verify(submission, catalogue: try World.catalogue())
        }
        let tokens = store.requests.map { $0.headers.first { $0.0 == "Authorization" }?.1 ?? "" }
        #expect(tokens[0] == tokens[1] && tokens[1] != tokens[2] && tokens[2] == tokens[3])
    }

    @Test func slowClockOfOursRefusesNoGenuinePurchase() async throws {
        let payload = Payload(["signedDate": "\(World.now.value + 600_000)"])
        #expect(try await local(payload).summary == "open our-configuration")
        let stranger = try MintedChain.make(around: World.now)
        let forged = try World.submission(try stranger.sign(Array(payload.json.utf8)))
        let verdict = try await World.verifier(.silent()).verify(forged, catalogue: try World.catalogue())
        #expect(verdict.summary == "rejected invalid-signature")
    }

    /// Somebody has to find it in the catalogue: as the store calls it, or the name that nobody knows.
    @Test func openPurchaseNamesTheProductThatTheCatalogueIsWrongAbout() async throws {
        for (changes, claimed, expected) in [
            (["type": "\"Non-Consumable\""], nil, "com.mygame.gems.500"),
            (["productId": "\"com.mygame.gone\""], nil, "com.mygame.gone"), ([:], "renamed_since", "renamed_since"),
            (["type": "\"New\""], nil, nil),
        ] as [([String: String?], String?, String?)] {
            #expect(try await local(Payload(changes), product: claimed).awaitedProduct == expected)
        }
    }

    @Test func deploymentWithoutAppleKeepsItsReceipts() async throws {
        let verdict = try await verdict(Payload(), store: .silent()) { $0.apple = nil }
        #expect(verdict.summary == "open our-configuration")
    }
}
