import Commerce
import HTTP
import ServiceRuntime
import Signing
import Testing

@testable import Verification

/// The rows of the attack catalogue that end in this module, one parameterised test each.
///
/// Forged and broken signatures are `SignedDataVerifier`'s; here every signature is genuine, and still nothing that is
/// not this player's paid purchase in this app may come out as verified.
@LoopActor
@Suite struct AttackTableTests {
    private func apple(
        _ payload: String, product: String? = "gems_pack_medium", store: CannedStore = .silent(),
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) async throws -> Verdict {
        let submission = try World.submission(try World.chain.get().sign(Array(payload.utf8)), product: product)
        return try await World.verifier(store, change).verify(submission, catalogue: try World.catalogue())
    }

    private func google(
        _ answer: HTTPAnswer, product: String? = "gems_pack_medium", accountToken: String? = nil
    ) async throws -> Verdict {
        let submission = try World.submission(
            PlayPurchase.token, store: .googlePlay, product: product, accountToken: accountToken)
        return try await World.verifier(CannedStore(answers: answer))
            .verify(submission, catalogue: try World.catalogue())
    }

    @Test("row 8: objects of Xcode and local testing", arguments: ["Xcode", "LocalTesting", "production", ""])
    func developersMachineIsNoStore(environment: String) async throws {
        let payload = Payload(["environment": "\"\(environment)\""]).json
        #expect(try await apple(payload) { $0.sandbox = .everybody }.summary == "rejected wrong-environment")
        let inSandbox = try await apple(payload) {
            $0.sandbox = .everybody
            $0.apple?.environments = [.sandbox]
        }
        #expect(inSandbox.summary == "rejected wrong-environment")
    }

    @Test("row 11: genuine purchase in another app", arguments: ["com.other", "com.mygame.", "COM.MYGAME", ""])
    func otherAppsPurchaseIsRefused(bundle: String) async throws {
        #expect(try await apple(Payload(["bundleId": "\"\(bundle)\""]).json).summary == "rejected wrong-app")
    }

    @Test("row 12: sandbox purchase for the production wallet", arguments: [SandboxPolicy.nobody, .listed([])])
    func sandboxPurchaseIsNotCredited(policy: SandboxPolicy) async throws {
        let verdict = try await apple(Payload(["environment": "\"Sandbox\""]).json) { $0.sandbox = policy }
        #expect(verdict.summary == "rejected sandbox-not-allowed")
    }

    @Test(
        "row 13: Google token of another package or product",
        arguments: [
            (PlayPurchase.error(400, "invalid"), "rejected malformed-receipt"),
            (PlayPurchase.error(400, "purchaseTokenDoesNotMatchPackageName"), "rejected wrong-app"),
            (PlayPurchase.error(400, "purchaseTokenDoesNotMatchProductId"), "rejected product-mismatch"),
            (PlayPurchase.error(404, "purchaseTokenNotFound"), "open too-new"),
            (PlayPurchase(["productId": "\"gems_7\""]).answer, "rejected product-mismatch"),
        ])
    func tokenOfSomethingElseIsNotCredited(answer: HTTPAnswer, expected: String) async throws {
        #expect(try await google(answer, product: "gems_pack_huge").summary == expected)
    }

    @Test(
        "row 15: replay by another account",
        arguments: ["0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e", "bob", " ", "\u{0430}da"])
    func purchaseMadeForSomebodyElseIsRefused(token: String) async throws {
        let refused = "rejected belongs-to-another-player"
        #expect(try await apple(Payload(["appAccountToken": "\"\(token)\""]).json).summary == refused)
        let answer = PlayPurchase(["obfuscatedExternalAccountId": "\"\(token)\""]).answer
        #expect(try await google(answer).summary == refused)
    }

    @Test(
        "row 16: other objects with Apple's signature",
        arguments: [
            """
            {"notificationType":"REFUND","notificationUUID":"c0ffee00-1234-4321-8888-000000000001","version":"2.0",\
            "signedDate":1793000000500,"data":{"environment":"Production","bundleId":"com.mygame"}}
            """,
            """
            {"originalTransactionId":"2000001234500888","autoRenewProductId":"com.mygame.gems.500",\
            "productId":"com.mygame.gems.500","autoRenewStatus":1,"signedDate":1793000000900,\
            "environment":"Production","renewalDate":1795600000000}
            """,
            """
            {"receiptType":"Production","appAppleId":6400000001,"bundleId":"com.mygame",\
            "receiptCreationDate":1793000000000,"appTransactionId":"704200000000000001"}
            """,
            Payload(["transactionId": nil]).json, Payload(["productId": nil]).json, Payload(["type": nil]).json,
            Payload(["purchaseDate": nil]).json, Payload(["bundleId": nil]).json,
            Payload(["environment": nil]).json, Payload(["transactionId": "null"]).json, "{}",
        ])
    func whatIsNotATransactionIsRefused(payload: String) async throws {
        #expect(try await apple(payload, product: nil).summary == "rejected malformed-receipt")
    }

    @Test(
        "row 17: path injection in ids",
        arguments: ["../9", "%2e%2e", "1?x=1", "1#", "1\\n", "1/..", "", "1 ", "..", "1%00", "１"])
    func idThatIsNoIdNeverReachesAURL(id: String) async throws {
        for field in ["transactionId", "originalTransactionId", "productId"] {
            let value = field == "productId" ? "com.mygame/\(id)" : id
            let verdict = try await apple(Payload([field: "\"\(value)\""]).json, product: nil)
            #expect(verdict.summary == "rejected malformed-receipt")
        }
        #expect(throws: (any Error).self) { try Receipt.infer("token/" + id, store: .googlePlay) }
    }

    @Test(
        "row 17: escaping is the second lock",
        arguments: [
            ("../x", "..%2Fx"), ("a?b#c", "a%3Fb%23c"), ("%2e", "%252e"), ("\n", "%0A"), ("ü", "%C3%BC"),
            ("a.b_c~-9", "a.b_c~-9"),
        ])
    func everythingButUnreservedCharactersIsEscaped(text: String, expected: String) {
        #expect(StoreURL.escaped(text) == expected)
    }

    @Test(
        "row 18: numbers and shapes that make no sense",
        arguments: [
            ["quantity": "-1"], ["quantity": "2147483648"], ["quantity": "9223372036854775807"], ["quantity": "\"\""],
            ["quantity": "[1]"], ["quantity": "{\"a\":1}"], ["purchaseDate": "\"soon\""], ["purchaseDate": "1e300"],
            ["purchaseDate": "[]"], ["revocationDate": "\"never\""], ["type": "[]"], ["bundleId": "7"],
            ["appAccountToken": "{}"], ["inAppOwnershipType": "[]"],
        ] as [[String: String]])
    func nonsenseUnderAGenuineSignatureIsParked(changes: [String: String]) async throws {
        let verdict = try await apple(Payload(changes).json, product: nil)
        #expect(verdict.summary == "open unknown-state")
    }

    @Test(
        "row 18: documents that are none",
        arguments: [
            #"{"transactionId":"1","transactionId":"2"}"#, #"{"a":"\u0000"}"#, #"{"purchaseDate":1e400}"#,
            #"{"purchaseDate":NaN}"#, String(repeating: "[", count: 2000), "{", "7", "\"text\"", "",
            "{\"a\":" + String(repeating: "[", count: 500) + String(repeating: "]", count: 500) + "}",
        ])
    func documentThatIsNoneIsRefused(payload: String) async throws {
        #expect(try await apple(payload, product: nil).summary == "rejected malformed-receipt")
        let submission = try World.submission(PlayPurchase.token, store: .googlePlay)
        let store = CannedStore(answers: .json(200, payload))
        let verdict = try await World.verifier(store).verify(submission, catalogue: try World.catalogue())
        #expect(verdict.summary == "open store-unavailable" || verdict.summary == "open unknown-state")
    }

    @Test("row 18: enormous signed text")
    func enormousReceiptIsRefused() async throws {
        let huge = Payload(["filler": "\"" + String(repeating: "x", count: 40_000) + "\""])
        // The receipt's own cap is checked where it is told what it is.
        #expect(throws: (any Error).self) { try Receipt.infer(try huge.signed()) }
        let store = CannedStore(answers: try huge.answer())
        #expect(try await apple(Payload().json, store: store).summary == "open store-unavailable")
    }

    @Test("row 19: refunded purchase presented again", arguments: ["0", "1", "1793000050000"])
    func refundedPurchaseIsNotCredited(date: String) async throws {
        #expect(try await apple(Payload(["revocationDate": date]).json).summary == "rejected refunded")
        let confirmed = CannedStore(answers: try Payload(["revocationDate": date]).answer())
        #expect(try await apple(Payload().json, store: confirmed).summary == "rejected refunded")
        #expect(try await google(PlayPurchase(["purchaseState": "1"]).answer).summary == "rejected cancelled")
        let partly = PlayPurchase(["quantity": "2", "refundableQuantity": "0"])
        #expect(try await google(partly.answer).summary == "rejected refunded")
    }

    @Test("row 20: pending token presented early and often", arguments: 1...5)
    func pendingPurchaseIsNeitherCreditedNorAcknowledged(number: Int) async throws {
        let store = CannedStore(answers: PlayPurchase(["purchaseState": "2"]).answer)
        let submission = try World.submission(PlayPurchase.token, store: .googlePlay)
        let attempt = VerificationAttempt(number: number, age: .seconds(number * 100_000))
        let verdict = try await World.verifier(store)
            .verify(submission, catalogue: try World.catalogue(), attempt: attempt)
        #expect(verdict.summary == "awaiting payment" && verdict.purchases.isEmpty)
        #expect(store.purchaseRequests.map(\.method) == [.get])
    }

    @Test(
        "row 23: verifyReceipt says 0, but the receipt is not for this",
        arguments: [
            ("\"com.other\"", "com.mygame.gems.500", "rejected wrong-app"),
            ("null", "com.mygame.gems.500", "rejected wrong-app"),
            ("\"com.mygame\"", "com.mygame.gems.9000", "rejected product-mismatch"),
            ("\"com.mygame\"", nil, "rejected no-purchase-in-receipt"),
        ] as [(String, String?, String)])
    func statusZeroAloneIsNothing(bundle: String, product: String?, expected: String) async throws {
        let entry = product.map {
            #"{"quantity":"1","product_id":"\#($0)","transaction_id":"1","purchase_date_ms":"1793000000000"}"#
        }
        let store = CannedStore(
            answers: .json(
                200,
                """
                {"status":0,"environment":"Production",\
                "receipt":{"bundle_id":\(bundle),"in_app":[\(entry ?? "")]}}
                """))
        let submission = try World.submission(AppleReceiptVerifierTests.receipt, store: .appStore)
        let verdict = try await World.verifier(store).verify(submission, catalogue: try World.catalogue())
        #expect(verdict.summary == expected)
    }

    @Test(
        "row 28: proof of a cheap product for an expensive one",
        arguments: ["gems_pack_huge", "doubler", "android_only"])
    func claimedProductDecidesNothing(claimed: String) async throws {
        #expect(try await apple(Payload().json, product: claimed).summary == "rejected product-mismatch")
        let answer = PlayPurchase(["productId": "\"gems_500\""]).answer
        #expect(try await google(answer, product: claimed).summary == "rejected product-mismatch")
    }
}
