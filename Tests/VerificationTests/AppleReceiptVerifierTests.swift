import Commerce
import HTTP
import ServiceRuntime
import Testing

@testable import Verification

/// Old base64 receipts: one receipt, many purchases, two environments, and a status that is not the whole truth.
@LoopActor
@Suite struct AppleReceiptVerifierTests {
    static let receipt = "MIIT" + String(repeating: "A", count: 400)
    static let production = "https://buy.itunes.apple.com/verifyReceipt"
    static let sandbox = "https://sandbox.itunes.apple.com/verifyReceipt"

    /// An entry of `in_app`; `extra` is JSON members.
    private func entry(_ product: String, _ id: String, quantity: String = "1", extra: String = "") -> String {
        """
        {"quantity":"\(quantity)","product_id":"\(product)","transaction_id":"\(id)","original_transaction_id":"\(id)",\
        "purchase_date":"2026-10-26 07:33:20 Etc/GMT","purchase_date_ms":"1793000000000"\(extra)}
        """
    }

    private func answer(
        _ entries: [String], bundle: String = "\"com.mygame\"", environment: String = "Production", status: Int = 0
    ) -> HTTPAnswer {
        .json(
            200,
            """
            {"status":\(status),"environment":"\(environment)","receipt":{"receipt_type":"\(environment)",\
            "bundle_id":\(bundle),"in_app":[\(entries.joined(separator: ","))]}}
            """)
    }

    private func verdict(
        _ store: CannedStore, product: String? = "gems_pack_medium", attempt: VerificationAttempt = .first,
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) async throws -> Verdict {
        let submission = try World.submission(Self.receipt, store: .appStore, product: product)
        return try await World.verifier(store, change)
            .verify(submission, catalogue: try World.catalogue(), attempt: attempt)
    }

    @Test func productionIsAskedWithReceiptAndSecret() async throws {
        let store = CannedStore(answers: answer([entry("com.mygame.gems.500", "1", quantity: "2")]))
        let verdict = try await verdict(store) { $0.apple?.sharedSecret = Secret("s3cret") }
        #expect(verdict.summary == "verified 2 × gems_pack_medium: 1100 gems")
        let request = try #require(store.requests.first)
        #expect(request.url == Self.production && request.method == .post && store.requests.count == 1)
        #expect(request.headers.contains { $0 == ("Content-Type", "application/json") })
        let body = try JSONView.parse(request.body ?? [])
        #expect(try body.string("receipt-data") == Self.receipt && body.string("password") == "s3cret")
    }

    @Test func receiptHasTheSameKeyAsTheSignedTransaction() async throws {
        let entries = [entry("com.mygame.gems.500", "2000001234500777")]
        let consumable = try await verdict(CannedStore(answers: answer(entries)))
        #expect(consumable.purchases.first?.key.text == "apple:Production:2000001234500777")
        let restored = """
            {"quantity":"1","product_id":"com.mygame.doubler","transaction_id":"9001","original_transaction_id":42,\
            "purchase_date_ms":1793000000000}
            """
        let owned = try await verdict(CannedStore(answers: answer([restored])), product: "doubler")
        #expect(owned.summary == "verified 1 × doubler: 10 gems + doubler")
        #expect(owned.purchases.first?.key.text == "apple:Production:42")
    }

    /// Somebody changes the type in the catalogue: what was credited under one name must not come back under another.
    @Test(arguments: ["iap_consumable", "iap_non_consumable"])
    func keyDoesNotDependOnTheCatalogue(type: String) async throws {
        let catalogue = try Catalogue(
            json: Array(
                """
                [{"productId":"doubler","type":"\(type)","storeProductId":{"ios":"com.mygame.doubler"},\
                "displayName":"Doubler","gemAmount":10}]
                """.utf8))
        let submission = try World.submission(Self.receipt, store: .appStore, product: "doubler")
        for (id, original) in [("42", "42"), ("9001", "42"), ("9002", "42")] {
            let entry = entry("com.mygame.doubler", id).replacing(
                #""original_transaction_id":"\#(id)""#, with: #""original_transaction_id":"\#(original)""#)
            let store = CannedStore(answers: answer([entry]))
            let verdict = try await World.verifier(store).verify(submission, catalogue: catalogue)
            #expect((verdict.purchases.first?.key ?? verdict.knownKey)?.text == "apple:Production:42")
            // A restored consumable does not exist: the catalogue is wrong, and a human must say so.
            let isAbsurd = id != original && type == "iap_consumable"
            #expect(verdict.summary.hasPrefix(isAbsurd ? "open misconfigured-product" : "verified"))
        }
    }

    @Test func everyGoodPurchaseIsReturnedOnce() async throws {
        let entries = [
            entry("com.mygame.gems.500", "1"), entry("com.mygame.gems.500", "2"),
            entry("com.mygame.doubler", "3"), entry("com.mygame.gems.9000", "4", extra: #","cancellation_date":"x""#),
            entry("com.mygame.gone", "5"), entry("com.mygame.gems.500", "1"), #"{"product_id":7}"#,
        ]
        let verdict = try await verdict(CannedStore(answers: answer(entries)))
        #expect(
            verdict.purchases.map(\.key.text) == [
                "apple:Production:1", "apple:Production:2", "apple:Production:3",
            ])
        let all = try await self.verdict(CannedStore(answers: answer(entries)), product: nil)
        #expect(all.purchases.count == 3)
    }

    /// Whoever names no product asks about all: what is open must be told beside what is good.
    @Test func eachPurchaseHasAVerdictOfItsOwn() async throws {
        let entries = [
            entry("com.mygame.gone", "5"), entry("com.mygame.gems.500", "1"), #"{"product_id":7}"#,
            entry("com.mygame.gems.9000", "4", extra: #","cancellation_date":"x""#),
        ]
        let all = try await verdict(CannedStore(answers: answer(entries)), product: nil)
        #expect(
            all.summary == """
                open unknown-product; verified 1 × gems_pack_medium: 550 gems; open unknown-state; rejected refunded
                """)
        guard case .several(let parts, let others) = all else { return }
        let keys = parts.map { $0.purchases.first?.key.text ?? $0.knownKey?.text }
        #expect(keys == ["apple:Production:5", "apple:Production:1", nil, "apple:Production:4"])
        #expect(others.isEmpty)
        // Who names one is answered by that one, but ends them all. What cannot be read may be the named one.
        let named = try await verdict(CannedStore(answers: answer(entries)))
        #expect(
            named.summary == "verified 1 × gems_pack_medium: 550 gems; open unknown-state | open unknown-product")
        // A subscription stays in the receipt whatever is finished, so it holds nothing up, in the catalogue or not.
        let renewing = [
            entry("com.mygame.club", "6", extra: #","expires_date":"2026-11-26 07:33:20 Etc/GMT""#),
            entry("com.mygame.gems.500", "1"),
        ]
        let member = try await verdict(CannedStore(answers: answer(renewing)))
        #expect(member.summary == "verified 1 × gems_pack_medium: 550 gems")
        // An open one of the same name is part of what was asked.
        let twice = [entry("com.mygame.gems.500", "1"), entry("com.mygame.gems.500", "2", quantity: "many")]
        let open = try await verdict(CannedStore(answers: answer(twice)))
        #expect(open.summary == "verified 1 × gems_pack_medium: 550 gems; open unknown-state")
    }

    @Test(arguments: [
        (#","cancellation_date_ms":"1793000050000""#, "rejected refunded"),
        (#","cancellation_date":"2026-10-26 07:33:20 Etc/GMT""#, "rejected refunded"),
        (#","in_app_ownership_type":"FAMILY_SHARED""#, "rejected family-shared"),
        (#","app_account_token":"0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e""#, "rejected belongs-to-another-player"),
        (#","expires_date_ms":"1795000000000""#, "rejected unsupported-product"),
        (#","in_app_ownership_type":"NEW""#, "open unknown-state"),
        (#","cancellation_date":null"#, "verified 1 × gems_pack_medium: 550 gems"),
    ])
    func claimedPurchaseIsJudgedLikeASignedTransaction(extra: String, expected: String) async throws {
        // A good purchase of another product beside it is credited, but must not answer for the claimed one.
        let entries = [entry("com.mygame.gems.500", "1", extra: extra), entry("com.mygame.doubler", "3")]
        let verdict = try await verdict(CannedStore(answers: answer(entries)))
        #expect(verdict.summary == expected + " | verified 1 × doubler: 10 gems + doubler")
    }

    @Test(arguments: ["0", "-1", "2147483648", "one", ""])
    func quantityThatMakesNoSenseIsParked(quantity: String) async throws {
        let store = CannedStore(answers: answer([entry("com.mygame.gems.500", "1", quantity: quantity)]))
        #expect(try await verdict(store).summary == "open unknown-state")
    }

    @Test func unknownProductWaitsAndUnclaimedOnesAreLeftOut() async throws {
        let only = CannedStore(answers: answer([entry("com.mygame.gone", "5")]))
        let open = try await verdict(only, product: nil)
        #expect(open.summary == "open unknown-product" && open.awaitedProduct == "com.mygame.gone")
        #expect(try await verdict(only, product: "gems_pack_tiny").summary == "open unknown-product")
        #expect(try await verdict(only).summary == "rejected product-mismatch")
        let known = CannedStore(answers: answer([entry("com.mygame.gems.500", "5")]))
        #expect(try await verdict(known, product: "renamed_since").summary == "open unknown-product")
        // Credited before, or not: its key tells.
        for (product, expected) in [("gems_pack_huge", "rejected product-mismatch"), ("gone", "open unknown-product")] {
            let wrong = try await verdict(known, product: product)
            #expect(wrong.summary == expected)
            guard case .several(let parts, _) = wrong else { throw CancellationError() }
            #expect(parts.map { $0.knownKey?.text } == ["apple:Production:5"])
            #expect(parts.map(\.awaitedProduct) == [product == "gone" ? "gone" : nil])
        }
        // In a new shape: which product it is cannot be said, so neither that it is not the claimed one.
        let unreadable = CannedStore(answers: answer([#"{"product_id":{"id":"com.mygame.gems.500"}}"#]))
        #expect(try await verdict(unreadable).summary == "open unknown-state")
    }

    @Test func emptyReceiptHoldsNoPurchase() async throws {
        #expect(try await verdict(CannedStore(answers: answer([]))).summary == "rejected no-purchase-in-receipt")
        let none = HTTPAnswer.json(
            200, #"{"status":0,"environment":"Production","receipt":{"bundle_id":"com.mygame"}}"#)
        #expect(try await verdict(CannedStore(answers: none)).summary == "rejected no-purchase-in-receipt")
    }

    @Test func sandboxReceiptIsSentToTheSandboxOnce() async throws {
        let good = answer([entry("com.mygame.gems.500", "1")], environment: "Sandbox")
        for (policy, expected) in [
            (SandboxPolicy.everybody, "verified 1 × gems_pack_medium: 550 gems"),
            (.nobody, "rejected sandbox-not-allowed"),
        ] {
            let store = CannedStore(answers: .json(200, #"{"status":21007}"#), good)
            let verdict = try await verdict(store) { $0.sandbox = policy }
            #expect(verdict.summary == expected)
            #expect(store.requests.map(\.url) == [Self.production, Self.sandbox])
        }
        let confused = CannedStore(answers: .json(200, #"{"status":21007}"#), .json(200, #"{"status":21008}"#))
        #expect(try await verdict(confused).summary == "open our-configuration")
        #expect(confused.requests.count == 2)
    }

    @Test func testDeploymentAsksOnlyTheSandbox() async throws {
        let real = CannedStore(answers: .json(200, #"{"status":21008}"#))
        let verdict = try await verdict(real) { $0.apple?.environments = [.sandbox] }
        #expect(verdict.summary == "rejected wrong-environment")
        #expect(real.requests.map(\.url) == [Self.sandbox])
        let test = CannedStore(answers: answer([entry("com.mygame.gems.500", "1")], environment: "Sandbox"))
        let credited = try await self.verdict(test) {
            $0.apple?.environments = [.sandbox]
            $0.sandbox = .everybody
        }
        #expect(credited.summary == "verified 1 × gems_pack_medium: 550 gems")
    }

    @Test func productionOnlyDeploymentDoesNotAskTheSandbox() async throws {
        let store = CannedStore(answers: .json(200, #"{"status":21007}"#))
        let verdict = try await verdict(store) { $0.apple?.environments = [.production] }
        #expect(verdict.summary == "rejected wrong-environment" && store.requests.count == 1)
    }

    @Test(arguments: [
        (#"{"status":21002}"#, 1, "open store-unavailable"), (#"{"status":21002}"#, 9, "rejected malformed-receipt"),
        (#"{"status":21003}"#, 1, "rejected invalid-signature"), (#"{"status":21004}"#, 99, "open our-configuration"),
        (#"{"status":21005}"#, 99, "open store-unavailable"), (#"{"status":21010}"#, 1, "rejected unknown-purchase"),
        (#"{"status":21155,"is_retryable":1}"#, 99, "open store-unavailable"),
        (#"{"status":21155,"is-retryable":true}"#, 99, "open store-unavailable"),
        (#"{"status":21155,"is_retryable":"1"}"#, 99, "open store-unavailable"),
        (#"{"status":21155,"is_retryable":0}"#, 1, "rejected unknown-purchase"),
        (#"{"status":21155,"is-retryable":false}"#, 1, "rejected unknown-purchase"),
        (#"{"status":"21005"}"#, 99, "open store-unavailable"), (#"{"status":77}"#, 99, "open store-unavailable"),
        (#"{}"#, 99, "open store-unavailable"), (#"{"status":21155,"is_retryable":7}"#, 99, "open store-unavailable"),
        (#"{"status":{}}"#, 99, "open store-unavailable"), ("<html>", 99, "open store-unavailable"),
    ])
    func statusIsJudged(body: String, number: Int, expected: String) async throws {
        let attempt = VerificationAttempt(number: number, age: .seconds(99_999))
        #expect(try await verdict(CannedStore(answers: .json(200, body)), attempt: attempt).summary == expected)
    }

    @Test func ambiguousStatusIsNotBelievedWithinSeconds() async throws {
        let soon = VerificationAttempt(number: 9, age: .seconds(10))
        let store = CannedStore(answers: .json(200, #"{"status":21002}"#))
        #expect(try await verdict(store, attempt: soon).summary == "open store-unavailable")
        // Nor where the age is a lie: the clock that tells it jumped.
        let looks = try await patience { try await self.verdict(store, attempt: $0) }
        #expect(looks >= .seconds(60))
    }

    @Test(arguments: [
        (401, "open our-configuration"), (404, "open our-configuration"), (429, "open store-throttled"),
        (500, "open store-unavailable"), (503, "open store-unavailable"), (302, "open store-unavailable"),
    ])
    func httpStatusNeverRefusesAReceipt(status: Int, expected: String) async throws {
        let store = CannedStore(answers: HTTPAnswer(status: status, body: []))
        let late = VerificationAttempt(number: 99, age: .seconds(99_999))
        #expect(try await verdict(store, attempt: late).summary == expected)
        #expect(store.requests.count == 1)
    }
}
