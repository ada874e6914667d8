import Commerce
import HTTP
import ServiceRuntime
import Testing

@testable import Verification

@LoopActor
@Suite struct GoogleVerifierTests {
    private func verdict(
        _ store: CannedStore, token: String = PlayPurchase.token, product: String? = "gems_pack_medium",
        accountToken: String? = nil, attempt: VerificationAttempt = .first,
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) async throws -> Verdict {
        let submission = try World.submission(
            token, store: .googlePlay, product: product, accountToken: accountToken)
        return try await World.verifier(store, change)
            .verify(submission, catalogue: try World.catalogue(), attempt: attempt)
    }

    @Test func googleIsAskedAboutTheTokenAsTheClaimedProduct() async throws {
        let store = CannedStore(answers: PlayPurchase().answer)
        #expect(try await verdict(store).summary == "verified 1 × gems_pack_medium: 550 gems")
        let request = try #require(store.purchaseRequests.first)
        #expect(request.method == .get && store.purchaseRequests.count == 1)
        #expect(
            request.url == """
                https://androidpublisher.googleapis.com/androidpublisher/v3/applications/com.mygame/purchases/products/\
                gems_500/tokens/aaaabbbbccccddddeeeeffff.AO-J1Omadeup
                """)
        #expect(request.headers.contains { $0 == ("Authorization", "Bearer made-up") })
    }

    nonisolated static let states: [([String: String?], String)] = [
        (["quantity": "3"], "verified 3 × gems_pack_medium: 1650 gems"),
        (["quantity": "\"3\""], "verified 3 × gems_pack_medium: 1650 gems"),
        (["quantity": "3", "refundableQuantity": "1"], "verified 1 × gems_pack_medium: 550 gems"),
        (["quantity": "3", "refundableQuantity": "3"], "verified 3 × gems_pack_medium: 1650 gems"),
        (["quantity": "3", "refundableQuantity": "0"], "rejected refunded"),
        (["quantity": "3", "refundableQuantity": "4"], "open unknown-state"),
        (["quantity": "0"], "open unknown-state"), (["quantity": "-1"], "open unknown-state"),
        (["quantity": "2147483648"], "open unknown-state"), (["quantity": "\"three\""], "open unknown-state"),
        (["quantity": "1.0"], "open unknown-state"),
        (["purchaseState": nil], "open unknown-state"), (["purchaseState": "null"], "open unknown-state"),
        (["purchaseState": "3"], "open unknown-state"), (["purchaseState": "-1"], "open unknown-state"),
        (["purchaseState": "\"0\""], "verified 1 × gems_pack_medium: 550 gems"),
        (["purchaseState": "\"PURCHASED\""], "open unknown-state"), (["purchaseState": "false"], "open unknown-state"),
        (["purchaseState": "1"], "rejected cancelled"), (["purchaseState": "2"], "awaiting payment"),
        (["purchaseType": "1", "orderId": nil], "verified 1 × gems_pack_medium: 550 gems"),
        (["purchaseType": "2", "orderId": nil], "verified 1 × gems_pack_medium: 550 gems"),
        (["purchaseType": "1", "refundableQuantity": "0"], "verified 1 × gems_pack_medium: 550 gems"),
        (["purchaseType": "0"], "rejected sandbox-not-allowed"), (["purchaseType": "9"], "open unknown-state"),
        (["productId": "\"gems_500\""], "verified 1 × gems_pack_medium: 550 gems"),
        (["productId": "\"gems_9000\""], "rejected product-mismatch"),
        (["purchaseToken": "\"\(PlayPurchase.token)\""], "verified 1 × gems_pack_medium: 550 gems"),
        (["purchaseToken": "\"another\""], "open unknown-state"),
        (["obfuscatedExternalAccountId": "\"u-5fd1c0\""], "rejected belongs-to-another-player"),
        (["obfuscatedExternalAccountId": "\"\""], "verified 1 × gems_pack_medium: 550 gems"),
        (["obfuscatedExternalAccountId": "\"\(World.accountToken())\""], "verified 1 × gems_pack_medium: 550 gems"),
        (["consumptionState": "1"], "verified 1 × gems_pack_medium: 550 gems"),
        (
            ["orderId": "{\"new\":\"shape\"}", "regionCode": "49", "aNewField": "[[[]]]"],
            "verified 1 × gems_pack_medium: 550 gems"
        ),
    ]

    @Test(arguments: states)
    func answerIsJudged(changes: [String: String?], expected: String) async throws {
        let verdict = try await verdict(CannedStore(answers: PlayPurchase(changes).answer))
        #expect(verdict.summary == expected)
        if verdict.purchases.isEmpty { #expect(verdict.knownKey?.text == "google:\(PlayPurchase.token)") }
    }

    @Test func verifiedPurchaseCarriesWhatTheLedgerNeeds() async throws {
        let verdict = try await verdict(CannedStore(answers: PlayPurchase(["quantity": "2"]).answer))
        let purchase = try #require(verdict.purchases.first)
        #expect(purchase.key.text == "google:\(PlayPurchase.token)")
        #expect(purchase.orderID?.rawValue == "GPA.3300-1111-2222-33333" && purchase.storefront == "DE")
        #expect(purchase.purchasedAtMilliseconds == 1_793_000_000_000 && purchase.quantity == 2)
        #expect(purchase.environment == .production && !purchase.isTest && !purchase.isPromo)
        #expect(purchase.storeProductID.rawValue == "gems_500" && purchase.priceMilliunits == nil)
    }

    @Test func promoPurchaseWithoutOrderIdIsMarked() async throws {
        let store = CannedStore(answers: PlayPurchase(["purchaseType": "1", "orderId": nil]).answer)
        let purchase = try #require(try await verdict(store).purchases.first)
        #expect(purchase.isPromo && purchase.orderID == nil && purchase.environment == .production)
    }

    @Test func licenceTestersAreCreditedByPolicyOnly() async throws {
        let ada = try PlayerID(validating: "ada")
        for (policy, expected) in [
            (SandboxPolicy.nobody, "rejected sandbox-not-allowed"),
            (.listed([ada]), "verified 1 × gems_pack_medium: 550 gems"),
            (.everybody, "verified 1 × gems_pack_medium: 550 gems"),
        ] {
            let store = CannedStore(answers: PlayPurchase(["purchaseType": "0"]).answer)
            let verdict = try await verdict(store) { $0.sandbox = policy }
            #expect(verdict.summary == expected)
            if let purchase = verdict.purchases.first {
                #expect(purchase.isTest && purchase.environment == .sandbox)
            }
        }
    }

    @Test(
        arguments: [
            ([:], "gems_500", "gems_pack_medium", GoogleConfiguration.Consumption.server, StoreDuty.Kind.googleConsume),
            ([:], "gems_500", "gems_pack_medium", .client, .googleAcknowledge),
            ([:], "doubler", "doubler", .server, .googleAcknowledge),
            (["acknowledgementState": "1"], "doubler", "doubler", .server, nil),
            (["acknowledgementState": "1"], "gems_500", "gems_pack_medium", .server, .googleConsume),
            (["consumptionState": "1"], "gems_500", "gems_pack_medium", .server, nil),
            (["consumptionState": "1"], "gems_500", "gems_pack_medium", .client, nil),
            (["acknowledgementState": "1"], "gems_500", "gems_pack_medium", .client, nil),
        ] as [([String: String?], String, String, GoogleConfiguration.Consumption, StoreDuty.Kind?)])
    func dutyFollowsProductAndState(
        changes: [String: String?], storeProduct: String, product: String,
        consumption: GoogleConfiguration.Consumption, expected: StoreDuty.Kind?
    ) async throws {
        let store = CannedStore(answers: PlayPurchase(changes).answer)
        let verdict = try await verdict(store, product: product) { $0.google?.consumption = consumption }
        let purchase = try #require(verdict.purchases.first)
        #expect(purchase.duty?.kind == expected)
        if let duty = purchase.duty {
            #expect(duty.storeProductID.rawValue == storeProduct && duty.token.rawValue == PlayPurchase.token)
        }
    }

    /// Refused, but perhaps credited before: then Google still waits for the duty, unless it took the purchase back.
    @Test(
        arguments: [
            (["obfuscatedExternalAccountId": "\"bob\""], "gems_500", .googleConsume),
            (["obfuscatedExternalAccountId": "\"bob\""], "doubler", .googleAcknowledge),
            (["obfuscatedExternalAccountId": "\"bob\"", "acknowledgementState": "1"], "doubler", nil),
            (["obfuscatedExternalAccountId": "\"bob\"", "purchaseState": "1"], "gems_500", nil),
            (["obfuscatedExternalAccountId": "\"bob\"", "purchaseState": "2"], "gems_500", nil),
            (["obfuscatedExternalAccountId": "\"bob\""], "off_sale", .googleAcknowledge),
            (["purchaseType": "0"], "gems_500", .googleConsume), ([:], "gems_9000", .googleConsume),
            (["purchaseState": "1"], "gems_500", nil),
            (["quantity": "3", "refundableQuantity": "0"], "gems_500", nil),
        ] as [([String: String?], String, StoreDuty.Kind?)])
    func refusalTellsWhatTheStoreWaitsFor(
        changes: [String: String?], storeProduct: String, expected: StoreDuty.Kind?
    ) async throws {
        let json = #"{"productId":"\#(storeProduct)","purchaseToken":"\#(PlayPurchase.token)"}"#
        let verdict = try await verdict(CannedStore(answers: PlayPurchase(changes).answer), token: json)
        #expect(verdict.summary.hasPrefix("rejected"))
        #expect(verdict.duty?.kind == expected)
        if let duty = verdict.duty {
            #expect(duty.storeProductID.rawValue == storeProduct && duty.token.rawValue == PlayPurchase.token)
        }
    }

    /// Open, but perhaps credited before it was: Google has answered, so nobody has to ask again what it waits for.
    @Test(
        arguments: [
            (["quantity": "0"], "gems_500", .googleConsume), (["quantity": "0"], "doubler", .googleAcknowledge),
            (["quantity": "0", "consumptionState": "1"], "gems_500", .googleAcknowledge),
            (["quantity": "3", "refundableQuantity": "4"], "gems_500", .googleConsume),
            (["purchaseType": "9"], "gems_500", .googleConsume), (["quantity": "2"], "treasure", .googleConsume),
            (["purchaseState": "3"], "gems_500", nil), (["purchaseToken": "\"another\""], "gems_500", nil),
            (["purchaseType": "9", "purchaseState": "2"], "gems_500", nil),
        ] as [([String: String?], String, StoreDuty.Kind?)])
    func openPurchaseTellsWhatTheStoreWaitsFor(
        changes: [String: String?], storeProduct: String, expected: StoreDuty.Kind?
    ) async throws {
        let treasure = """
            ,{"productId":"treasure","type":"iap_consumable","storeProductId":{"android":"treasure"},\
            "displayName":"Treasure","gemAmount":9007199254740991}
            """
        let json = #"{"productId":"\#(storeProduct)","purchaseToken":"\#(PlayPurchase.token)"}"#
        let verdict = try await World.verifier(CannedStore(answers: PlayPurchase(changes).answer))
            .verify(
                try World.submission(json, store: .googlePlay, product: nil), catalogue: try World.catalogue(treasure))
        #expect(verdict.summary.hasPrefix("open"))
        #expect(verdict.duty?.kind == expected)
        if let duty = verdict.duty {
            #expect(duty.storeProductID.rawValue == storeProduct && duty.token.rawValue == PlayPurchase.token)
        }
    }

    @Test(arguments: [
        (404, "purchaseTokenNotFound", 1, 0, "open too-new"), (404, "purchaseTokenNotFound", 20, 59, "open too-new"),
        (404, "purchaseTokenNotFound", 8, 9999, "open too-new"),
        (404, "purchaseTokenNotFound", 9, 60, "rejected unknown-purchase"),
        (400, "invalid", 1, 0, "rejected malformed-receipt"),
        (400, "purchaseTokenDoesNotMatchPackageName", 1, 0, "rejected wrong-app"),
        (400, "productNotOwnedByUser", 9, 9999, "open unknown-state"),
        (403, "forbidden", 99, 99_999, "open our-configuration"),
        (401, "permissionDenied", 99, 99_999, "open our-configuration"),
        (404, "applicationNotFound", 99, 99_999, "open our-configuration"),
        (403, "quotaExceeded", 99, 99_999, "open store-throttled"), (429, "", 99, 99_999, "open store-throttled"),
        (409, "concurrentUpdate", 99, 99_999, "open store-unavailable"),
        (410, "purchaseTokenNoLongerValid", 1, 0, "rejected purchase-expired"),
        (500, "backendError", 99, 99_999, "open store-unavailable"), (503, "", 99, 99_999, "open store-unavailable"),
    ])
    func errorIsJudged(status: Int, reason: String, number: Int, seconds: Int, expected: String) async throws {
        let store = CannedStore(answers: PlayPurchase.error(status, reason))
        let verdict = try await verdict(
            store, attempt: VerificationAttempt(number: number, age: .seconds(seconds)))
        #expect(verdict.summary == expected)
        #expect(verdict.knownKey?.text == "google:\(PlayPurchase.token)")
        #expect(store.purchaseRequests.count == 1)
    }

    @Test func unknownTokenThatAppearsIsCredited() async throws {
        let store = CannedStore(
            answers: PlayPurchase.error(404, "purchaseTokenNotFound"), PlayPurchase().answer)
        let first = try await verdict(store)
        #expect(first.summary == "open too-new" && first.retryAfter == .seconds(2))
        let second = try await verdict(store, attempt: VerificationAttempt(number: 2, age: .seconds(2)))
        #expect(second.summary == "verified 1 × gems_pack_medium: 550 gems")
    }

    /// The age comes from Redis's clock, which may jump.
    @Test func unknownTokenIsWaitedForWhateverItsAgeIsSaidToBe() async throws {
        let store = CannedStore(answers: PlayPurchase.error(404, "purchaseTokenNotFound"))
        let looks = try await patience { try await self.verdict(store, attempt: $0) }
        #expect(looks >= .seconds(60))
    }

    @Test func throttlingSaysHowLongToWait() async throws {
        let seconds = CannedStore(answers: PlayPurchase.error(429, "", headers: [("Retry-After", "30")]))
        #expect(try await verdict(seconds).retryAfter == .seconds(30))
        let silent = CannedStore(answers: PlayPurchase.error(429, ""))
        #expect(try await verdict(silent).retryAfter == .seconds(5))
        let endless = CannedStore(answers: PlayPurchase.error(429, "", headers: [("Retry-After", "99999999")]))
        #expect(try await verdict(endless).retryAfter == .seconds(3600))
    }

    @Test func playsOriginalJSONSaysWhereToAsk() async throws {
        let json = #"{"orderId":"GPA.1","productId":"gems_9000","purchaseToken":"\#(PlayPurchase.token)"}"#
        let store = CannedStore(answers: PlayPurchase().answer)
        #expect(try await verdict(store, token: json, product: nil).summary.contains("9000 gems"))
        #expect(store.purchaseRequests.first?.url.contains("/gems_9000/tokens/") == true)
        // … and no more: the claimed product must be the one Google answered about.
        #expect(try await verdict(store, token: json).summary == "rejected product-mismatch")
        let renamed = try await verdict(store, token: json, product: "renamed_since")
        #expect(renamed.summary == "open unknown-product" && renamed.duty?.kind == .googleConsume)
    }

    @Test func productOutsideTheCatalogueWaitsForOne() async throws {
        let unasked = try await verdict(.silent(), product: "gems_pack_tiny")
        #expect(unasked.summary == "open unknown-product" && unasked.awaitedProduct == "gems_pack_tiny")
        let json = #"{"productId":"gems_1","purchaseToken":"\#(PlayPurchase.token)"}"#
        let store = CannedStore(answers: PlayPurchase().answer)
        let open = try await verdict(store, token: json, product: nil)
        #expect(open.summary == "open unknown-product" && open.duty?.kind == .googleAcknowledge)
        #expect(open.duty?.storeProductID.rawValue == "gems_1" && open.awaitedProduct == "gems_1")
        // Also when it needs none: no duty would mean that nobody knows.
        let done = CannedStore(answers: PlayPurchase(["acknowledgementState": "1"]).answer)
        #expect(try await verdict(done, token: json, product: nil).duty?.kind == .googleAcknowledge)
        let pending = CannedStore(answers: PlayPurchase(["purchaseState": "2"]).answer)
        #expect(try await verdict(pending, token: json, product: nil).summary == "awaiting payment")
    }

    @Test func severalAppsAreAskedInOrderUntilOneKnowsTheToken() async throws {
        let names = try ["com.mygame", "com.mygame.lite"].map { try PackageName(validating: $0) }
        let late = VerificationAttempt(number: 9, age: .seconds(900))
        for (first, second, expected, asked) in [
            (PlayPurchase.error(400, "invalid"), PlayPurchase().answer, "verified 1 × gems_pack_medium: 550 gems", 2),
            (PlayPurchase.error(404, "notFound"), PlayPurchase().answer, "verified 1 × gems_pack_medium: 550 gems", 2),
            (PlayPurchase().answer, PlayPurchase.error(500, ""), "verified 1 × gems_pack_medium: 550 gems", 1),
            (PlayPurchase.error(500, ""), PlayPurchase().answer, "open store-unavailable", 1),
            (PlayPurchase.error(400, "invalid"), PlayPurchase.error(503, ""), "open store-unavailable", 2),
            (PlayPurchase.error(404, "notFound"), PlayPurchase.error(400, "invalid"), "rejected unknown-purchase", 2),
        ] {
            let store = CannedStore(answers: first, second)
            let verdict = try await verdict(store, attempt: late) { $0.google?.packageNames = names }
            #expect(verdict.summary == expected)
            #expect(store.purchaseRequests.count == asked)
            if let duty = verdict.purchases.first?.duty { #expect(duty.package == names[asked - 1]) }
        }
    }

    @Test func explicitAccountTokenReplacesTheDefault() async throws {
        for (inStore, named, expected) in [
            ("u-5fd1c0", "u-5fd1c0", "verified"), ("u-5fd1c0", "U-5FD1C0", "rejected"),
            (World.accountToken(), "u-5fd1c0", "rejected"),
        ] {
            let store = CannedStore(answers: PlayPurchase(["obfuscatedExternalAccountId": "\"\(inStore)\""]).answer)
            #expect(try await verdict(store, accountToken: named).summary.hasPrefix(expected))
        }
    }

    @Test func requestsAreCountedByStoreEndpointAndClass() async throws {
        let metrics = Metrics()
        let store = CannedStore(
            answers: PlayPurchase().answer, PlayPurchase.error(403, "forbidden"), HTTPAnswer(status: 502, body: []))
        let verifier = try World.verifier(store, metrics: metrics)
        let submission = try World.submission(PlayPurchase.token, store: .googlePlay)
        for _ in 1...3 { _ = await verifier.verify(submission, catalogue: try World.catalogue()) }
        let text = metrics.render()
        for (endpoint, kind) in [
            ("token", "ok"), ("products.get", "ok"), ("products.get", "our_configuration"),
            ("products.get", "retry_soon"),
        ] {
            let line = text.split(separator: "\n").first {
                $0.hasPrefix("teller_store_requests_total{") && $0.contains("endpoint=\"\(endpoint)\"")
                    && $0.contains("class=\"\(kind)\"") && $0.contains("store=\"google\"")
            }
            #expect(line?.hasSuffix(" 1") == true)
        }
        #expect(text.contains("teller_store_request_seconds_count{"))
        #expect(!text.contains(PlayPurchase.token))
    }
}
