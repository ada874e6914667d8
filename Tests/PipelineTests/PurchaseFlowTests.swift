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

/// A receipt becomes gems, once: from the request to the wallet and the store, across all modules.
@LoopActor
@Suite(.serialized) struct PurchaseFlowTests {
    @Test(arguments: [EmulatedStore.apple, .google])
    func purchaseIsCreditedOnceHoweverOftenItIsSent(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store)
            let first = try await works.submit(purchase)
            #expect(first.summary == "200 credited finish")
            #expect(first.granted == 550 && first.number("newBalance") == 550)
            #expect(first.isAlreadyProcessed == false)
            // From the status; from the wallet when the status is gone; and with a productId more or less.
            let again = try await works.submit(purchase)
            try await works.forgetStatus(of: Works.order(purchase.receipt))
            let later = try await works.submit(purchase)
            let bare = try await works.submit(purchase, product: store == .apple ? nil : "gems_pack_medium")
            for answer in [again, later, bare] {
                #expect(answer.summary == "200 credited finish")
                #expect(answer.text("transactionId") == first.text("transactionId"))
                #expect(answer.isAlreadyProcessed == true && answer.number("newBalance") == 550)
            }
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    @Test func googlePurchaseIsCreditedAndThenConsumed() async throws {
        try await Works.run { works in
            let purchase = try works.buy(.google)
            #expect(try await works.submit(purchase).summary == "200 credited finish")
            try await eventually("it to be consumed") {
                works.emulator.record(purchase.id, in: .google)?.isConsumed == true
            }
            #expect(works.emulator.requests(to: .googleConsume) == 1)
            #expect(works.emulator.requests(to: .googleAcknowledge) == 0)
            // Presented again after it was consumed it is still this player's credit.
            try await works.forgetStatus(of: Works.order(purchase.receipt))
            #expect(try await works.submit(purchase).summary == "200 credited finish")
            try await eventually("everything to be done") { try await works.isIdle() }
            #expect(try await works.gems() == 550)
        }
    }

    /// A worker died between the credit and its settlement, and Google cannot be asked afterwards.
    ///
    /// That is what it looks like without what the settlement wrote: the status and the queued duty.
    @Test func dutyThatWasNeverQueuedIsQueuedWhenGoogleAnswersAgain() async throws {
        var plan = Works.Plan()
        plan.inFlightMax = [.google: 10]
        try await Works.run(plan) { works in
            let order = Works.order(try works.buy(.google).receipt)
            #expect(try await works.submit(order).summary == "200 credited finish")
            let duties: RedisArgument = "teller:{0}:pending:google-duty"
            #expect(try await works.redis.send(["DEL", duties]) == .integer(1))
            try await works.forgetStatus(of: order)
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(503))]), for: "google")
            let again = try await works.submit(order)
            #expect(again.summary == "200 credited finish" && again.isAlreadyProcessed == true)
            #expect(try await works.redis.send(["LLEN", duties]) == .integer(0))
            works.emulator.setFaults(FaultKnobs(), for: "google")
            try await eventually("the duty to be queued") {
                try await works.redis.send(["LLEN", duties]) == .integer(1)
            }
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    /// As above, but afterwards the purchase is refused: handed in with another account token.
    @Test func dutyThatWasNeverQueuedIsQueuedWhenThePurchaseWouldNowBeRefused() async throws {
        var plan = Works.Plan()
        plan.inFlightMax = [.google: 10]
        try await Works.run(plan) { works in
            let purchase = try works.buy(.google) { $0.accountToken = "shop-account-7" }
            let bare = Works.order(purchase.receipt)
            let named = String(bare.dropLast()) + #","accountToken":"shop-account-7"}"#
            #expect(try await works.submit(named).summary == "200 credited finish")
            let duties: RedisArgument = "teller:{0}:pending:google-duty"
            #expect(try await works.redis.send(["DEL", duties]) == .integer(1))
            try await works.forgetStatus(of: bare)
            let again = try await works.submit(bare)
            #expect(again.summary == "200 credited finish" && again.isAlreadyProcessed == true)
            #expect(try await works.redis.send(["LLEN", duties]) == .integer(1))
            // Who is refused without having been credited brings no duty about.
            #expect(try await works.submit(bare.replacing("ada", with: "bob")).status == 409)
            #expect(try await works.redis.send(["LLEN", duties]) == .integer(1))
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    /// As above, but afterwards its product is taken off the catalogue.
    @Test func dutyThatWasNeverQueuedIsQueuedWhenTheProductIsForgotten() async throws {
        var plan = Works.Plan()
        plan.inFlightMax = [.google: 10]
        try await Works.run(plan) { works in
            works.reload(try Works.catalogue(Self.brandNew))
            let purchase = try works.buy(.google, "brand_new")
            let json = #"{"productId":"brand_new","purchaseToken":"\#(purchase.receipt)"}"#
            let order = Works.order(json, product: nil)
            #expect(try await works.submit(order).summary == "200 credited finish")
            let duties: RedisArgument = "teller:{0}:pending:google-duty"
            #expect(try await works.redis.send(["DEL", duties]) == .integer(1))
            try await works.forgetStatus(of: order)
            works.reload(try Works.catalogue())
            let again = try await works.submit(order)
            #expect(again.summary == "200 credited finish" && again.isAlreadyProcessed == true)
            #expect(try await works.redis.send(["LLEN", duties]) == .integer(1))
            #expect(try await works.redis.send(["ZCARD", "teller:{0}:retry:google"]) == .integer(0))
            #expect(try await works.totals() == [77, 1, 1])
        }
    }

    /// A bare token does not say which product it is of: taken off the catalogue, or sold under another name at the
    /// store.
    @Test(arguments: ["", brandNew.replacing(#""android":"brand_new""#, with: #""android":"brand_newer""#)])
    func dutyOfABareTokenIsFoundByWhatWasCredited(products: String) async throws {
        var plan = Works.Plan()
        plan.inFlightMax = [.google: 10]
        try await Works.run(plan) { works in
            works.reload(try Works.catalogue(Self.brandNew))
            let order = Works.order(try works.buy(.google, "brand_new").receipt, product: "brand_new")
            #expect(try await works.submit(order).summary == "200 credited finish")
            let duties: RedisArgument = "teller:{0}:pending:google-duty"
            #expect(try await works.redis.send(["DEL", duties]) == .integer(1))
            try await works.forgetStatus(of: order)
            works.reload(try Works.catalogue(products))
            try await works.push(order, to: "google")
            try await eventually("the duty to be queued") {
                try await works.redis.send(["LLEN", duties]) == .integer(1)
            }
            #expect(try await works.redis.send(["ZCARD", "teller:{0}:retry:google"]) == .integer(0))
            #expect(try await works.status(of: order)?.state == .credited)
            let duty = try #require(try await works.redis.send(["LINDEX", duties, "0"]).text)
            #expect(duty.contains(#""storeProductId":"brand_new""#))
            #expect(try await works.totals() == [77, 1, 1])
        }
    }

    @Test func clientMayKeepTheConsumingToItself() async throws {
        var plan = Works.Plan()
        plan.verification = { $0.google?.consumption = .client }
        try await Works.run(plan) { works in
            let purchase = try works.buy(.google)
            #expect(try await works.submit(purchase).status == 200)
            try await eventually("it to be acknowledged") {
                works.emulator.record(purchase.id, in: .google)?.isAcknowledged == true
            }
            #expect(works.emulator.record(purchase.id, in: .google)?.isConsumed == false)
            #expect(works.emulator.requests(to: .googleConsume) == 0)
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func nonConsumableGrantsItsEntitlementOnceAndIsAcknowledged(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store, "doubler")
            for _ in 1...2 {
                let answer = try await works.submit(purchase, product: "doubler")
                #expect(answer.summary == "200 credited finish" && answer.number("newBalance") == 10)
                #expect(try answer.json?.elements("entitlements").map { try $0.string() } == ["doubler"])
                try await works.forgetStatus(of: Works.order(purchase.receipt, product: "doubler"))
            }
            let wallet = try await works.ledger.wallet(of: try PlayerID(validating: "ada"))
            #expect(wallet.entitlements.map(\.rawValue) == ["doubler"])
            guard store == .google else { return }
            try await eventually("it to be acknowledged") {
                works.emulator.record(purchase.id, in: .google)?.isAcknowledged == true
            }
            #expect(works.emulator.record(purchase.id, in: .google)?.isConsumed == false)
        }
    }

    @Test func restoredNonConsumableIsTheSamePurchase() async throws {
        try await Works.run { works in
            let purchase = try works.buy(.apple, "doubler")
            #expect(try await works.submit(purchase, product: "doubler").number("newBalance") == 10)
            let restored = try works.buy(.apple, "doubler") { $0.originalTransactionID = purchase.id }
            let answer = try await works.submit(restored, product: "doubler")
            #expect(answer.summary == "200 credited finish" && answer.isAlreadyProcessed == true)
            #expect(answer.number("newBalance") == 10)
            #expect(try await works.submit(restored, by: "bob", product: "doubler").status == 409)
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func quantityMultipliesTheGrant(store: EmulatedStore) async throws {
        try await Works.run { works in
            let answer = try await works.submit(try works.buy(store) { $0.quantity = 3 })
            #expect(answer.granted == 1650 && answer.number("newBalance") == 1650)
        }
    }

    @Test func promoPurchaseWithoutOrderIdIsKnownByADigest() async throws {
        try await Works.run { works in
            let purchase = try works.buy(.google) { $0.isPromo = true }
            let answer = try await works.submit(purchase)
            #expect(answer.summary == "200 credited finish")
            let name = try #require(answer.text("transactionId"))
            #expect(name.count == 32 && !answer.raw.contains(purchase.receipt))
        }
    }

    @Test func playsOriginalJSONIsAsGoodAsTheToken() async throws {
        try await Works.run { works in
            let purchase = try works.buy(.google)
            let json = #"{"orderId":"GPA.1","productId":"gems_500","purchaseToken":"\#(purchase.receipt)"}"#
            #expect(try await works.submit(Works.order(json, product: nil)).number("newBalance") == 550)
            let token = try await works.submit(purchase)
            #expect(token.isAlreadyProcessed == true && token.number("newBalance") == 550)
        }
    }

    @Test func appReceiptOfSeveralPurchasesCreditsEachOnce() async throws {
        try await Works.run { works in
            let signed = try works.buy(.apple)
            let second = try works.buy(.apple, "gems_pack_huge")
            let refunded = try works.buy(.apple) { $0.state = .refunded }
            #expect(try await works.submit(signed).number("newBalance") == 550)
            let receipt = try works.emulator.appReceipt(of: [signed.id, second.id, refunded.id])
            let answer = try await works.submit(Works.order(receipt, product: nil))
            #expect(answer.summary == "200 credited finish" && answer.number("newBalance") == 9550)
            let purchases = try #require(try answer.json?.elements("purchases"))
            let known = try purchases.map { (try $0.string("transactionId"), try $0.bool("alreadyProcessed")) }
            #expect(Dictionary(uniqueKeysWithValues: known) == [signed.id: true, second.id: false])
            #expect(answer.isAlreadyProcessed == false)
            // The next receipt of the same app holds the old purchases again.
            let third = try works.buy(.apple)
            let next = try works.emulator.appReceipt(of: [signed.id, second.id, third.id])
            #expect(try await works.submit(Works.order(next, product: nil)).number("newBalance") == 10_100)
            #expect(try await works.totals() == [10_100, 3, 3])
        }
    }

    nonisolated private static let brandNew = """
        ,{"productId":"brand_new","type":"iap_consumable","storeProductId":{"ios":"brand_new",\
        "android":"brand_new"},"displayName":"New","gemAmount":77,"position":9}
        """

    /// "Finish" for the whole receipt would end its open purchase at the client, unpaid for.
    @Test func appReceiptIsNotFinishedWhileOneOfItsPurchasesIsOpen() async throws {
        try await Works.run { works in
            let good = try works.buy(.apple)
            let open = try works.buy(.apple, "brand_new")
            let refunded = try works.buy(.apple) { $0.state = .refunded }
            let receipt = try works.emulator.appReceipt(of: [open.id, good.id, refunded.id])
            let order = Works.order(receipt, product: nil)
            // Not after the 30 s that it would wait for the other one: what is there is told at once.
            let first = try await works.submit(order)
            for answer in [first, try await works.poll(order)] {
                #expect(answer.summary == "202 pending keep")
                #expect(try answer.json?.elements("purchases").map { try $0.string("transactionId") } == [good.id])
                #expect(try answer.json?.object("balances").int64("gems") == 550)
            }
            // Asked again and again it stays so, and nothing is added twice.
            #expect(try await works.submit(order, wait: 1).summary == "202 pending keep")
            #expect(try await works.totals() == [550, 1, 1])
            works.reload(try Works.catalogue(Self.brandNew))
            try await eventually("all of it to be credited") { try await works.poll(order).status == 200 }
            let last = try await works.poll(order)
            #expect(last.summary == "200 credited finish")
            // Both are new to the player, also the one that an earlier attempt of the same job credited.
            let isOld = try last.json?.elements("purchases").map { try $0.bool("alreadyProcessed") }
            #expect(isOld == [false, false] && last.isAlreadyProcessed == false)
            #expect(try await works.totals() == [627, 2, 2])
        }
    }

    /// The ordinary request: it names what was just bought, and the receipt holds more.
    @Test func requestThatNamesOnePurchaseIsAnsweredByItAndCreditsTheOthers() async throws {
        try await Works.run { works in
            let open = try works.buy(.apple, "brand_new")
            let named = try works.buy(.apple)
            let order = Works.order(try works.emulator.appReceipt(of: [open.id, named.id]))
            #expect(try await works.submit(order, wait: 1).summary == "202 pending keep")
            #expect(try await works.totals() == [550, 1, 1])
            works.reload(try Works.catalogue(Self.brandNew))
            try await eventually("all of it to be credited") { try await works.poll(order).status == 200 }
            let last = try await works.poll(order)
            #expect(last.summary == "200 credited finish" && last.text("transactionId") == named.id)
            #expect(try last.json?.elements("purchases").count == 2)
            #expect(try await works.totals() == [627, 2, 2])

            let refunded = try works.buy(.apple) { $0.state = .refunded }
            let good = try works.buy(.apple, "gems_pack_huge")
            let both = Works.order(try works.emulator.appReceipt(of: [refunded.id, good.id]))
            #expect(try await works.submit(both).summary == "422 refunded finish")
            #expect(try await works.totals() == [9627, 3, 3])
        }
    }

    /// Its product was taken off the catalogue since, but it is in the wallet: nothing is open.
    @Test func creditedPurchaseOfAForgottenProductKeepsNoReceiptOpen() async throws {
        try await Works.run { works in
            works.reload(try Works.catalogue(Self.brandNew))
            let old = try works.buy(.apple, "brand_new")
            let first = try works.emulator.appReceipt(of: [old.id])
            #expect(try await works.submit(Works.order(first, product: nil)).status == 200)
            works.reload(try Works.catalogue())
            let new = try works.buy(.apple)
            let both = try works.emulator.appReceipt(of: [old.id, new.id])
            let answer = try await works.submit(Works.order(both, product: nil))
            #expect(answer.summary == "200 credited finish" && answer.isAlreadyProcessed == false)
            #expect(try answer.json?.elements("purchases").count == 2)
            // And beside one that is open, it does not answer for it.
            let open = try works.buy(.apple, "unheard_of")
            let mixed = Works.order(try works.emulator.appReceipt(of: [old.id, open.id]), product: nil)
            #expect(try await works.submit(mixed, wait: 1).summary == "202 pending keep")
            #expect(try await works.totals() == [627, 2, 2])
        }
    }

    @Test func dutyIsRepeatedUntilTheStoreKnows() async throws {
        try await Works.run { works in
            let faults = [
                StoreFault(.status(503), count: 2), StoreFault(.badGatewayPage, count: 1, happensAfterEffect: true),
            ]
            works.emulator.setFaults(FaultKnobs(faults: faults), for: "google.consume")
            let purchase = try works.buy(.google)
            #expect(try await works.submit(purchase).status == 200)
            try await eventually(within: .seconds(30), "everything to be done") { try await works.isIdle() }
            #expect(works.emulator.record(purchase.id, in: .google)?.isConsumed == true)
            #expect(try await works.jobs.deadCount() == 0)
        }
    }

    @Test func dutyThatBecameImpossibleIsShownToAHuman() async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(503))]), for: "google.consume")
            let purchase = try works.buy(.google)
            #expect(try await works.submit(purchase).status == 200)
            try works.emulator.move(purchase.id, to: .refunded)
            works.emulator.setFaults(FaultKnobs(), for: "google.consume")
            try await eventually(within: .seconds(30), "a dead letter") { try await works.jobs.deadCount() == 1 }
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.queue == "google-duty" && letter.reasons.first == "impossible-duty")
            #expect(try await works.gems() == 550)
        }
    }

    @Test func sandboxPurchaseIsEnteredAsOne() async throws {
        var plan = Works.Plan()
        plan.verification = { $0.sandbox = .everybody }
        try await Works.run(plan) { works in
            #expect(try await works.submit(try works.buy(.apple) { $0.environment = .sandbox }).status == 200)
            #expect(try await works.submit(try works.buy(.google) { $0.isTest = true }).status == 200)
            let page = try await works.ledger.history(of: try PlayerID(validating: "ada"), limit: 10)
            #expect(page.items.map(\.entry?.environment) == [.sandbox, .sandbox])
        }
    }
}
