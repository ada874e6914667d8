import Commerce
import Jobs
import ReceiptWorker
import Ledger
import Redis
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing
import Verification

/// Goal: what the store calls good is credited in the end, whatever was broken on the way, and is never called bad.
@LoopActor
@Suite(.serialized) struct PatienceTests {
    nonisolated static let faults: [StoreFault.Kind] = [
        .status(500), .status(503), .status(403), .throttled(retryAfter: .milliseconds(1)), .unauthorizedText,
        .badGatewayPage, .notJSON, .truncated, .reset, .close,
    ]

    @Test(arguments: faults, [EmulatedStore.apple, .google])
    func storeInTroubleMakesThePurchaseWait(fault: StoreFault.Kind, store: EmulatedStore) async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(fault)]), for: "*")
            let purchase = try works.buy(store)
            let pending = try await works.submit(purchase, wait: 1)
            #expect(pending.summary == "202 pending keep")
            #expect(try await works.totals() == [0, 0, 0])
            works.emulator.setFaults(FaultKnobs(), for: "*")
            let order = Works.order(purchase.receipt)
            try await eventually(within: .seconds(30), "it to be credited") {
                try await works.poll(order).status == 200
            }
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    @Test func hangingStoreIsGivenUpAndAskedAgain() async throws {
        var plan = Works.Plan()
        plan.verification = { $0.limits.callDeadline = .milliseconds(300) }
        try await Works.run(plan) { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang, count: 2)]), for: "apple")
            let answer = try await works.submit(try works.buy(.apple))
            #expect(answer.summary == "200 credited finish")
        }
    }

    @Test func oneStoresTroubleDoesNotDelayTheOther() async throws {
        var plan = Works.Plan()
        plan.inFlightMax = [.apple: 1, .google: 1, .googleDuty: 1]
        try await Works.run(plan) { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang)]), for: "apple")
            for _ in 1...3 { #expect(try await works.submit(try works.buy(.apple), wait: 0).status == 202) }
            let answer = try await works.submit(try works.buy(.google))
            #expect(answer.summary == "200 credited finish")
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func purchaseThatTheStoreDoesNotKnowYetIsCreditedWhenItDoes(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store) { $0.unknownReads = 2 }
            #expect(try await works.submit(purchase).summary == "200 credited finish")
            #expect(try await works.gems() == 550)
        }
    }

    @Test func unpaidPurchaseIsCreditedWhenItIsHandedInAgainPaid() async throws {
        try await Works.run { works in
            let purchase = try works.buy(.google) { $0.state = .pending }
            for _ in 1...3 { #expect(try await works.submit(purchase).summary == "202 awaiting-payment keep") }
            #expect(works.emulator.record(purchase.id, in: .google)?.isAcknowledged == false)
            try works.emulator.move(purchase.id, to: .purchased)
            let paid = try await works.submit(purchase)
            #expect(paid.summary == "200 credited finish" && paid.number("newBalance") == 550)
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func unknownProductIsParkedUntilTheCatalogueKnowsIt(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store, "brand_new")
            let json =
                #"{"productId":"brand_new","purchaseToken":"\#(purchase.receipt)"}"#
            let order = Works.order(store == .apple ? purchase.receipt : json, product: nil)
            #expect(try await works.submit(order, wait: 1).summary == "202 pending keep")
            works.reload(
                try Works.catalogue(
                    """
                    ,{"productId":"brand_new","type":"iap_consumable",\
                    "storeProductId":{"ios":"brand_new","android":"brand_new"},"displayName":"New","gemAmount":77,\
                    "position":9}
                    """))
            try await eventually(within: .seconds(30), "it to be credited") {
                try await works.poll(order).status == 200
            }
            #expect(try await works.gems() == 77)
        }
    }

    /// Goal: whoever is called finds the product that receipts wait for, wherever they look.
    ///
    /// Method: one that the catalogue does not have, and one that it lists with another type than Apple.
    @Test(arguments: [
        ("brand_new", "Consumable", "brand_new", "unknown-product"),
        ("doubler", "Consumable", "com.mygame.doubler", "misconfigured-product"),
    ])
    func productThatTheCatalogueIsWrongAboutIsNamed(
        product: String, type: String, name: String, cause: String
    ) async throws {
        var plan = Works.Plan()
        plan.retry.horizon = .milliseconds(300)
        // Some seconds in which it can be seen waiting.
        plan.retry.attemptsMin = 40
        try await Works.run(plan) { works in
            let order = Works.order(try works.buy(.apple, product) { $0.type = type }.receipt, product: nil)
            _ = try await works.submit(order, wait: 0)
            try await eventually("the answer to say what it waits for") {
                try await works.poll(order).text("cause") != nil
            }
            let pending = try await works.poll(order)
            #expect(pending.text("cause") == cause && pending.text("product") == name)
            try await eventually("the job to be seen waiting") {
                guard let waits = try await works.jobs.waitingStatuses(in: "apple").first else { return false }
                return try SubmissionStatus(json: JSONView.parse(waits)).awaitedProduct == name
            }
            try await eventually(within: .seconds(30), "a dead letter") { try await works.jobs.deadCount() == 1 }
            #expect(try await works.jobs.deadLetters().first?.reasons == ["no-answer", cause, name])
            let parked = try await works.poll(order)
            #expect(parked.summary == "503 parked contact-support")
            #expect(parked.text("detail")?.contains("\(cause) \(name)") == true)
            let series = #"teller_receipts_awaiting_product_total{cause="\#(cause)",product="\#(name)"}"#
            #expect(works.metrics.render().contains(series))
        }
    }

    /// Names that anybody can make up get no series of their own, and leave room for those that a store confirms.
    @Test func productOfATokenThatGoogleIsNotAskedAboutIsNotCountedByName() async throws {
        var plan = Works.Plan()
        plan.inFlightMax = [.apple: 10, .google: 100]
        plan.verification = { $0.limits.parkedDelay = .seconds(60) }
        try await Works.run(plan) { works in
            for number in 1...60 {
                let token = "aaaabbbbccccddddeeeeff\(number + 100).AO-J1Omadeup"
                try await works.push(Works.order(token, product: "made_up_\(number)"), to: "google")
            }
            try await eventually("all of them to wait") {
                try await works.redis.send(["ZCARD", "teller:{0}:retry:google"]) == .integer(60)
            }
            let order = Works.order(try works.buy(.apple, "brand_new").receipt, product: nil)
            try await works.push(order, to: "apple")
            try await eventually("the paid one to wait") { try await works.status(of: order)?.awaitedProduct != nil }
            let text = works.metrics.render()
            #expect(text.contains(#"awaiting_product_total{cause="unknown-product",product="unconfirmed"}"#))
            #expect(text.contains(#"awaiting_product_total{cause="unknown-product",product="brand_new"}"#))
            #expect(!text.contains("made_up") && works.emulator.requests(to: .googleGet) == 0)
        }
    }

    @Test func unansweredReceiptBecomesADeadLetterAndAReplayCreditsIt() async throws {
        var plan = Works.Plan()
        plan.retry.horizon = .milliseconds(300)
        try await Works.run(plan) { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(503))]), for: "*")
            let purchase = try works.buy(.apple)
            let order = Works.order(purchase.receipt)
            #expect(try await works.submit(order).summary == "503 parked contact-support")
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.reasons == ["no-answer", "store-unavailable"])
            // Old alone is not enough: it may have lain on the list while no worker ran.
            #expect(letter.attempts >= plan.retry.attemptsMin)
            #expect(letter.submission == (try Works.id(of: order).rawValue))
            works.emulator.setFaults(FaultKnobs(), for: "*")
            #expect(try await works.jobs.replay(letter.id) == .replayed)
            try await eventually("it to be credited") { try await works.poll(order).status == 200 }
            #expect(try await works.gems() == 550)
            #expect(try await works.jobs.deadCount() == 0)
        }
    }

    @Test func storeThatIsNotConfiguredMakesItsReceiptsWait() async throws {
        var plan = Works.Plan()
        plan.verification = { $0.google = nil }
        try await Works.run(plan) { works in
            let purchase = try works.buy(.google)
            #expect(try await works.submit(purchase, wait: 1).summary == "202 pending keep")
            #expect(try await works.status(of: Works.order(purchase.receipt))?.retryAfterMilliseconds != nil)
        }
    }

    /// What rings on its first event begins at 0: an increase is only seen between two samples.
    @Test func refusalsOfUsAreCountedFromZero() async throws {
        try await Works.run { works in
            let lines = works.metrics.render().split(separator: "\n").filter { $0.contains("our-configuration") }
            #expect(lines.count == 3 && lines.allSatisfy { $0.hasSuffix(" 0") }, "\(lines)")
        }
    }

    @Test func attemptsOnOldReceiptsRing() async throws {
        var plan = Works.Plan()
        plan.retry.alarmAge = .zero
        try await Works.run(plan) { works in
            #expect(works.metrics.render().contains(#"teller_receipts_late_total{queue="apple"} 0"#))
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.status(503), count: 1)]), for: "apple")
            let answer = try await works.submit(try works.buy(.apple))
            #expect(answer.status == 200)
            #expect(works.metrics.render().contains(#"teller_receipts_late_total{queue="apple"} 1"#))
            #expect(works.metrics.render().contains(#"teller_receipts_late_total{queue="google"} 0"#))
        }
    }

    @Test func walletAtItsLimitIsForAHumanAndNothingIsLost() async throws {
        try await Works.run { works in
            _ = try await works.redis.send(["HSET", "teller:{0}:player:ada", "gems", "9007199254740991"])
            let purchase = try works.buy(.apple)
            #expect(try await works.submit(purchase).summary == "503 parked contact-support")
            #expect(try await works.totals() == [9_007_199_254_740_991, 0, 1])
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.reasons == ["balance-too-large"])
            _ = try await works.redis.send(["HSET", "teller:{0}:player:ada", "gems", "100"])
            #expect(try await works.jobs.replay(letter.id) == .replayed)
            try await eventually("it to be credited") { try await works.gems() == 650 }
        }
    }

    /// One purchase that does not fit and one that does: "finish" for the whole receipt would lose the first, and to bury
    /// it at the first would keep the second from its player.
    @Test func receiptOfWhichOnePurchaseDoesNotFitCreditsTheOthersAndIsNotFinished() async throws {
        try await Works.run { works in
            _ = try await works.redis.send(["HSET", "teller:{0}:player:ada", "gems", "9007199254740000"])
            let purchases = [try works.buy(.apple, "gems_pack_huge"), try works.buy(.apple)]
            let order = Works.order(try works.emulator.appReceipt(of: purchases.map(\.id)), product: nil)
            let parked = try await works.submit(order)
            #expect(parked.summary == "503 parked contact-support")
            let told = try parked.json?.elements("purchases").map { try $0.string("transactionId") }
            #expect(told == [purchases[1].id])
            #expect(try parked.json?.object("balances").int64("gems") == 9_007_199_254_740_550)
            #expect(try await works.totals() == [9_007_199_254_740_550, 1, 2])
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.reasons == ["balance-too-large"])
            _ = try await works.redis.send(["HSET", "teller:{0}:player:ada", "gems", "550"])
            #expect(try await works.jobs.replay(letter.id) == .replayed)
            try await eventually("both to be credited") { try await works.gems() == 9550 }
            #expect(try await works.entries() == 2)
        }
    }

    /// It is not given up for the one that does not fit while another one is open, and its player hears what is there.
    @Test func receiptWithAnOpenPurchaseIsNotBuriedForTheOneThatDoesNotFit() async throws {
        var plan = Works.Plan()
        plan.retry.horizon = .milliseconds(300)
        try await Works.run(plan) { works in
            _ = try await works.redis.send(["HSET", "teller:{0}:player:ada", "gems", "9007199254740000"])
            let purchases = [
                try works.buy(.apple, "gems_pack_huge"), try works.buy(.apple, "brand_new"), try works.buy(.apple),
            ]
            let order = Works.order(try works.emulator.appReceipt(of: purchases.map(\.id)), product: nil)
            try await works.push(order, to: "apple")
            try await eventually("the good one to be told") {
                let status = try await works.status(of: order)
                return status?.state == .pending && status?.credits.count == 1
            }
            try await eventually(within: .seconds(30), "a dead letter") { try await works.jobs.deadCount() == 1 }
            #expect(try await works.jobs.deadLetters().first?.reasons == ["no-answer", "unknown-product", "brand_new"])
            let status = try #require(try await works.status(of: order))
            #expect(status.state == .dead && status.credits.map(\.transactionID) == [purchases[2].id])
        }
    }

    /// Something else lies where the wallet should be: only this player waits, and is seen.
    @Test func damagedWalletConcernsNobodyElse() async throws {
        var plan = Works.Plan()
        plan.retry.horizon = .milliseconds(300)
        try await Works.run(plan) { works in
            _ = try await works.redis.send(["SET", "teller:{0}:player:ada", "not a hash"])
            let purchase = try works.buy(.apple)
            #expect(try await works.submit(purchase, wait: 0).status == 202)
            #expect(try await works.submit(try works.buy(.apple), by: "bob").summary == "200 credited finish")
            try await eventually(within: .seconds(30), "a dead letter") { try await works.jobs.deadCount() == 1 }
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.reasons.first == "no-progress")
            _ = try await works.redis.send(["DEL", "teller:{0}:player:ada"])
            #expect(try await works.jobs.replay(letter.id) == .replayed)
            try await eventually("it to be credited") { try await works.gems() == 550 }
        }
    }
}
