import Commerce
import Jobs
import Ledger
import ReceiptWorker
import Redis
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing
import Verification

/// Goal: what is not this player's paid purchase in this app credits nobody, and leaves no mark.
///
/// Method: the rows of the attack catalogue from the HTTP request on, with the stores' real answers.
@LoopActor
@Suite(.serialized) struct RefusalTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let store: EmulatedStore
        let expected: String
        var product = "gems_pack_medium"
        let change: @Sendable (inout PurchaseRequest) -> Void
        var testDescription: String { name }

        init(
            _ name: String, _ store: EmulatedStore, _ expected: String, product: String = "gems_pack_medium",
            _ change: @escaping @Sendable (inout PurchaseRequest) -> Void
        ) {
            self.name = name
            self.store = store
            self.expected = expected
            self.product = product
            self.change = change
        }
    }

    nonisolated static let rows: [Row] =
        [.rogueRoot, .developerCertificate, .expiredWhenSigned, .changedPayload, .none].map { signer in
            Row("rows 1-10: forged by \(signer)", .apple, "422 invalid-signature contact-support") {
                $0.signer = signer
            }
        } + [
            Row("row 11: another app", .apple, "422 wrong-app contact-support") { $0.appID = "com.othergame" },
            Row("row 12: sandbox", .apple, "422 sandbox-not-allowed keep") { $0.environment = .sandbox },
            Row("row 12: licence tester", .google, "422 sandbox-not-allowed keep") { $0.isTest = true },
            Row("row 15: another player's appAccountToken", .apple, "409 belongs-to-another-player contact-support") {
                $0.accountToken = "0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e"
            },
            Row("row 15: another player's account id", .google, "409 belongs-to-another-player contact-support") {
                $0.accountToken = "0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e"
            },
            Row("row 19: refunded at Apple", .apple, "422 refunded finish") { $0.state = .refunded },
            Row("row 19: refunded at Google", .google, "422 cancelled finish") { $0.state = .refunded },
            Row("row 19: cancelled", .google, "422 cancelled finish") { $0.state = .cancelled },
            Row("row 20: pending", .google, "202 awaiting-payment keep") { $0.state = .pending },
            Row("family shared", .apple, "422 family-shared contact-support") { $0.ownership = "FAMILY_SHARED" },
            Row("subscription", .apple, "422 unsupported-product keep") { $0.type = "Auto-Renewable Subscription" },
            Row(
                "row 28: dear product claimed", .apple, "422 product-mismatch contact-support",
                product: "gems_pack_huge"
            ) { _ in },
            Row("row 28: other kind claimed", .apple, "422 product-mismatch contact-support", product: "doubler") { _ in
            },
        ]

    @Test(arguments: rows) func nothingIsCreditedAndNothingMarked(row: Row) async throws {
        try await Works.run { works in
            let purchase = try works.buy(row.store) { row.change(&$0) }
            for _ in 1...2 {
                #expect(try await works.submit(purchase, product: row.product).summary == row.expected)
            }
            try await eventually("the worker to be done") { try await works.isIdle() }
            #expect(try await works.totals() == [0, 0, 0])
            if row.store == .google {
                #expect(works.emulator.record(purchase.id, in: .google)?.isAcknowledged == false)
                #expect(works.emulator.requests(to: .googleConsume) == 0)
            }
        }
    }

    /// What Google does not know is believed at the second look, however new it is.
    private static var soonSureThatGoogleKnowsNothing: Works.Plan {
        var plan = Works.Plan()
        plan.verification = {
            $0.limits.unknownPurchaseLooks = 2
            $0.limits.unknownPurchaseAge = .zero
        }
        return plan
    }

    /// Row 13: Google is asked about our package and the claimed product, and knows the token under neither.
    @Test func tokenOfSomethingElseIsRefusedAtTheLatestWhenItIsNoLongerNew() async throws {
        try await Works.run(Self.soonSureThatGoogleKnowsNothing) { works in
            let foreign = try works.buy(.google) { $0.appID = "com.othergame" }
            let cheap = try works.buy(.google)
            for (purchase, product) in [(foreign, "gems_pack_medium"), (cheap, "gems_pack_huge")] {
                let answer = try await works.submit(purchase, product: product)
                #expect(answer.status == 422)
                let reasons = ["unknown-purchase", "wrong-app", "product-mismatch", "malformed-receipt"]
                #expect(answer.text("reason").map(reasons.contains) == true)
            }
            #expect(try await works.totals() == [0, 0, 0])
            // The attempt took nothing away from the honest way.
            #expect(try await works.submit(cheap).summary == "200 credited finish")
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func replayByAnotherPlayerIsRefusedForGood(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store)
            #expect(try await works.submit(purchase).status == 200)
            for player in ["bob", "eve"] {
                let answer = try await works.submit(purchase, by: player)
                #expect(answer.summary == "409 belongs-to-another-player contact-support")
                #expect(try await works.gems(player) == 0)
            }
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    @Test func legacyReceiptOfAnotherPlayerGivesNothing() async throws {
        try await Works.run { works in
            let first = try works.buy(.apple)
            let second = try works.buy(.apple)
            #expect(try await works.submit(first).status == 200)
            let both = try works.emulator.appReceipt(of: [first.id, second.id])
            let all = try works.emulator.appReceipt(of: [first.id])
            let stolen = try await works.submit(Works.order(all, "bob", product: nil))
            #expect(stolen.summary == "409 belongs-to-another-player contact-support")
            // Of a receipt that both hold, each gets what nobody had before.
            let shared = try await works.submit(Works.order(both, "bob", product: nil))
            #expect(shared.summary == "200 credited finish" && shared.number("newBalance") == 550)
            #expect(try await works.gems("ada") == 550)
            // But who names the other's is not told that he was credited for it.
            let third = try works.buy(.apple, "gems_pack_huge")
            let named = Works.order(try works.emulator.appReceipt(of: [first.id, third.id]), "eve")
            let refused = try await works.submit(named)
            #expect(refused.summary == "409 belongs-to-another-player contact-support")
            #expect(try refused.json?.elements("purchases").map { try $0.string("transactionId") } == [third.id])
            #expect(try await works.totals("eve") == [9000, 1, 3])
        }
    }

    @Test(arguments: [
        (SandboxPolicy.nobody, "422 sandbox-not-allowed keep", "422 sandbox-not-allowed keep"),
        (.listed([]), "422 sandbox-not-allowed keep", "422 sandbox-not-allowed keep"),
        (.everybody, "200 credited finish", "200 credited finish"),
    ])
    func sandboxPolicyDecides(policy: SandboxPolicy, atApple: String, atGoogle: String) async throws {
        var plan = Works.Plan()
        plan.verification = { $0.sandbox = policy }
        try await Works.run(plan) { works in
            let tested = try works.buy(.apple) { $0.environment = .sandbox }
            #expect(try await works.submit(tested).summary == atApple)
            #expect(try await works.submit(try works.buy(.google) { $0.isTest = true }).summary == atGoogle)
        }
    }

    @Test func listedTesterIsCreditedAndNobodyElse() async throws {
        let tester = try PlayerID(validating: "qa-ada")
        var plan = Works.Plan()
        plan.verification = { $0.sandbox = .listed([tester]) }
        try await Works.run(plan) { works in
            let purchase = try works.buy(.apple) { $0.environment = .sandbox }
            #expect(try await works.submit(purchase, by: "ada").summary == "422 sandbox-not-allowed keep")
            #expect(try await works.submit(purchase, by: "qa-ada").summary == "200 credited finish")
            #expect(try await works.totals("qa-ada") == [550, 1, 1])
        }
    }

    @Test func ownAccountTokenIsAccepted() async throws {
        try await Works.run { works in
            let signed = try works.buy(.apple) { $0.accountToken = works.account(of: "ada").uppercased() }
            #expect(try await works.submit(signed, by: "bob").status == 409)
            #expect(try await works.submit(signed).status == 200)
            let token = try works.buy(.google) { $0.accountToken = "shop-account-7" }
            #expect(try await works.submit(token).status == 409)
            let order = Works.order(token.receipt).dropLast() + #","accountToken":"shop-account-7"}"#
            // Another account token makes no other submission: the refusal is looked at again.
            #expect(try await works.submit(String(order)).status == 200)
            #expect(try await works.gems() == 1100)
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func refundAfterTheCreditDoesNotBecomeANo(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store)
            #expect(try await works.submit(purchase).status == 200)
            try await eventually("the duty to be done") { try await works.isIdle() }
            try works.emulator.move(purchase.id, to: .refunded)
            try await works.forgetStatus(of: Works.order(purchase.receipt))
            let again = try await works.submit(purchase)
            #expect(again.summary == "200 credited finish" && again.isAlreadyProcessed == true)
            #expect(again.granted == 550 && again.number("newBalance") == 550)
            // To somebody else it stays a "no".
            #expect([409, 422].contains(try await works.submit(purchase, by: "bob").status))
        }
    }

    /// Nothing is credited for a request that names the wrong product, and it hears so, at all times.
    ///
    /// What the credit changes is that there is nothing left to keep.
    @Test(arguments: [EmulatedStore.apple, .google])
    func wrongProductIsToldBeforeAndAfterTheCredit(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store)
            func wrong() async throws -> Works.Answer {
                try await works.submit(Self.withHint(purchase, store, product: "gems_pack_huge"))
            }
            let before = try await wrong()
            #expect(before.summary == "422 product-mismatch contact-support" && before.json?["purchases"] == nil)
            #expect(try await works.totals() == [0, 0, 0])
            #expect(try await works.submit(purchase).summary == "200 credited finish")
            // Also while the store is down, and when the money went back meanwhile.
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(503))]), for: "*")
            let down = try await wrong()
            works.emulator.setFaults(FaultKnobs(), for: "*")
            try works.emulator.move(purchase.id, to: .refunded)
            for after in [down, try await wrong()] {
                #expect(after.summary == "422 product-mismatch finish")
                let listed = try #require(try after.json?.elements("purchases").first)
                #expect(try listed.string("productId") == "gems_pack_medium")
                #expect(try after.json?.object("balances").int64("gems") == 550)
            }
            // The honest way is what it was; another player hears nothing of it.
            #expect(try await works.submit(purchase).summary == "200 credited finish")
            let stolen = try await works.submit(purchase, by: "bob", product: "gems_pack_huge")
            #expect(stolen.status >= 400 && stolen.text("clientAction") != "retry" && stolen.json?["purchases"] == nil)
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    /// A bare token is asked for under the product that the request names, and Google knows it under another.
    @Test func wrongProductOfABareTokenIsToldOnceItIsCredited() async throws {
        try await Works.run(Self.soonSureThatGoogleKnowsNothing) { works in
            let purchase = try works.buy(.google)
            let before = try await works.submit(purchase, product: "gems_pack_huge")
            #expect(before.status == 422 && before.text("clientAction") == "contact-support")
            #expect(try await works.submit(purchase).summary == "200 credited finish")
            let after = try await works.submit(purchase, product: "gems_pack_huge")
            #expect(after.summary == "422 product-mismatch finish")
            let hint = Self.withHint(purchase, .google, product: nil).replacing("gems_500", with: "gems_9000")
            #expect(try await works.submit(hint).summary == "422 product-mismatch finish")
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    /// "Finish" ends every purchase of an app receipt, so every one has to be in the wallet.
    @Test func wrongProductOfAnAppReceiptMayBeFinishedWhenAllOfItIsCredited() async throws {
        try await Works.run { works in
            let first = try works.buy(.apple)
            let second = try works.buy(.apple, "doubler")
            let wrong = Works.order(
                try works.emulator.appReceipt(of: [first.id, second.id]), product: "gems_pack_huge")
            #expect(try await works.submit(wrong).summary == "422 product-mismatch contact-support")
            #expect(try await works.submit(first).status == 200)
            #expect(try await works.submit(wrong).summary == "422 product-mismatch contact-support")
            #expect(try await works.submit(second, product: "doubler").status == 200)
            let all = try await works.submit(wrong)
            #expect(all.summary == "422 product-mismatch finish")
            #expect(try all.json?.elements("purchases").count == 2)
            #expect(try await works.totals() == [560, 2, 2])
        }
    }

    /// Who named what was credited then is not wrong because the catalogue calls it otherwise now.
    @Test func renamedProductIsNoMismatchForWhoeverWasCreditedForIt() async throws {
        try await Works.run { works in
            let purchase = try works.buy(.apple)
            #expect(try await works.submit(purchase).granted == 550)
            let exchanged = """
                [{"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.1"},\
                "displayName":"1 crystal","gemAmount":1},\
                {"productId":"gems_pack_huge","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500"},\
                "displayName":"9000 crystals","gemAmount":9000}]
                """
            works.reload(try Catalogue(json: Array(exchanged.utf8)))
            try await works.forgetStatus(of: Works.order(purchase.receipt))
            for product in ["gems_pack_medium", "gems_pack_huge"] {
                // Told is what was granted, not what would be today.
                let again = try await works.submit(purchase, product: product)
                #expect(again.summary == "200 credited finish" && again.isAlreadyProcessed == true)
                #expect(again.granted == 550 && again.text("productId") == "gems_pack_medium")
            }
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    /// "Finish" ends the whole receipt, so what was paid for beside the renamed product is credited first.
    ///
    /// Its store's id went to another product of the catalogue, or left it, while a client still names what it sees.
    @Test(arguments: ["com.mygame.gems.500", "com.mygame.gems.7"], ["gems_pack_medium", "gems_pack_huge"])
    func purchaseBesideARenamedOneIsCreditedBeforeTheReceiptIsFinished(huge: String, named: String) async throws {
        try await Works.run { works in
            let renamed = try works.buy(.apple)
            let beside = [try works.buy(.apple, "doubler"), try works.buy(.apple, "doubler") { $0.state = .refunded }]
            #expect(try await works.submit(renamed).granted == 550)
            works.reload(
                try Catalogue(
                    json: Array(
                        """
                        [{"productId":"gems_pack_medium","type":"iap_consumable",\
                        "storeProductId":{"ios":"com.mygame.gems.1"},"displayName":"1 crystal","gemAmount":1},\
                        {"productId":"gems_pack_huge","type":"iap_consumable","storeProductId":{"ios":"\(huge)"},\
                        "displayName":"9000 crystals","gemAmount":9000},\
                        {"productId":"doubler","type":"iap_non_consumable",\
                        "storeProductId":{"ios":"com.mygame.doubler"},"displayName":"Doubler","gemAmount":10}]
                        """.utf8)))
            let receipt = try works.emulator.appReceipt(of: beside.map(\.id) + [renamed.id])
            let answer = try await works.submit(Works.order(receipt, product: named))
            #expect(answer.summary == "200 credited finish" && answer.granted == 550)
            let told = try answer.json?.elements("purchases").map { try $0.string("transactionId") }
            #expect(told == [renamed.id, beside[0].id])
            #expect(try await works.totals() == [560, 2, 2])
        }
    }

    /// With the store's name of the product beside a Google token, so that Google finds it whatever `productId` says.
    private static func withHint(_ purchase: EmulatedPurchase, _ store: EmulatedStore, product: String?) -> String {
        let token = #"{"productId":"gems_500","purchaseToken":"\#(purchase.receipt)"}"#
        return Works.order(store == .apple ? purchase.receipt : token, product: product)
    }
}
