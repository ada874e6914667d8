import Commerce
import HTTP
import Jobs
import ServiceRuntime
import Signing
import TestSupport
import Testing

@testable import ShopAPI

/// What a purchase request and a poll are answered, in every state a submission can be in.
@LoopActor
@Suite struct PurchaseTests {
    @Test func receiptIsQueuedAsItCameAndPolledUntilItIsCredited() async throws {
        try await Shop.run { shop in
            let order = Shop.order()
            let location = try #require(try await shop.post(order).http.header("Location"))
            #expect(try await shop.get(location).summary == "202 pending keep")
            let lease = try await shop.lease()
            #expect(lease.payload == Array(order.utf8))
            #expect(lease.submission.map { "/shop/purchases/\($0)" } == location)
            try await shop.credit(lease, transaction: "2000000000000011")
            let credited = try await shop.get(location)
            #expect(credited.summary == "200 credited finish")
            #expect(credited.text("productId") == "gems_pack_medium")
            #expect(try credited.json?.bool("alreadyProcessed") == false)
        }
    }

    @Test func eachStoreHasItsList() async throws {
        try await Shop.run { shop in
            let json = #"{\"orderId\":\"GPA.1\",\"productId\":\"gems_500\",\"purchaseToken\":\"\#(Shop.token)x\"}"#
            let legacy = "MI" + String(repeating: "A", count: 200_000) + "AA"
            for order in [
                Shop.order(), Shop.order(receipt: Shop.token), #"{"userId":"ada","receiptData":"\#(json)"}"#,
                Shop.order(receipt: legacy),
            ] {
                let answer = try await shop.post(order)
                #expect(answer.summary == "202 pending keep")
            }
            let depths = [try await shop.pending("google"), try await shop.pending("apple")]
            #expect(depths == [2, 2])
        }
    }

    @Test func samePurchaseSentManyTimesIsQueuedOnce() async throws {
        try await Shop.run { shop in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 1...100 {
                    group.addTask { @LoopActor @Sendable in try await shop.post(Shop.order()).status }
                }
                var all: [Int] = []
                for try await one in group { all.append(one) }
                return all
            }
            #expect(statuses == Array(repeating: 202, count: 100))
            #expect(try await shop.pending() == 1)
        }
    }

    @Test func creditedPurchaseIsAnsweredAtOnceWithTheBalanceOfNow() async throws {
        try await Shop.run { shop in
            #expect(try await shop.post(Shop.order()).status == 202)
            try await shop.credit(try await shop.lease(), transaction: "2000000000000012")
            try await shop.credit("2000000000000013")
            let again = try await shop.post(Shop.order(), wait: "wait=30")
            #expect(again.summary == "200 credited finish")
            #expect(try again.json?.bool("alreadyProcessed") == true)
            #expect(try again.json?.object("granted").int64("gems") == 550)
            #expect(again.number("newBalance") == 1100)
            #expect(again.text("transactionId") == "2000000000000012")
            #expect(try await shop.pending() == 0)
        }
    }

    @Test func creditedPurchaseStaysCreditedWhenItsProductIsTakenOffTheCatalogue() async throws {
        try await Shop.run { shop in
            #expect(try await shop.post(Shop.order()).status == 202)
            try await shop.credit(try await shop.lease(), transaction: "2000000000000014")
            let other =
                #"[{"productId":"other","type":"iap_consumable","storeProductId":{"ios":"o"},"#
                + #""displayName":"Other","gemAmount":1}]"#
            shop.api.catalogue = try Catalogue(json: Array(other.utf8))
            #expect(try await shop.post(Shop.order()).summary == "200 credited finish")
            #expect(try await shop.post(Shop.order("bob")).summary == "422 unknown-product keep")
            #expect(try await shop.pending() == 0)
        }
    }

    @Test func newCatalogueCountsFromTheNextRequest() async throws {
        try await Shop.run { shop in
            let order = Shop.order().replacing("gems_pack_medium", with: "brand_new")
            #expect(try await shop.post(order).summary == "422 unknown-product keep")
            shop.api.catalogue = try Shop.catalogue(
                """
                ,{"productId":"brand_new","type":"iap_consumable","storeProductId":{"ios":"com.mygame.new"},\
                "displayName":"New","gemAmount":1,"position":9}
                """)
            #expect(try await shop.post(order).summary == "202 pending keep")
        }
    }

    @Test(arguments: RejectionReason.allCases)
    func rejectionIsToldAndNotLookedAtAgainAtOnce(reason: RejectionReason) async throws {
        try await Shop.run { shop in
            let location = try #require(try await shop.post(Shop.order()).http.header("Location"))
            try await shop.settle(try await shop.lease(), .rejected, reason)
            let row = Reason.rejected(reason).row
            for answer in [try await shop.get(location), try await shop.post(Shop.order(), wait: "wait=30")] {
                #expect(answer.summary == "\(row.status) \(reason.rawValue) \(row.action.rawValue)")
                #expect(answer.text("submissionId").map { "/shop/purchases/\($0)" } == location)
            }
            #expect(try await shop.pending() == 0)
        }
    }

    /// Polling would never end: only the same request, handed in again, makes a worker ask the store again.
    @Test func unpaidPurchaseIsKeptAndHasNothingToPoll() async throws {
        try await Shop.run { shop in
            async let answer = shop.post(Shop.order(), wait: "wait=30")
            try await shop.settle(try await shop.lease(), .awaitingPayment)
            let path = "/shop/purchases/\(try Shop.id(of: Shop.order()).rawValue)"
            for unpaid in [try await answer, try await shop.post(Shop.order()), try await shop.get(path)] {
                #expect(unpaid.summary == "202 awaiting-payment keep")
                #expect(unpaid.http.header("Location") == nil)
                #expect(unpaid.number("retryAfterMs") == shop.jobs.lookAgainInterval.inMilliseconds)
                #expect(try #require(unpaid.number("retryAfterMs")) >= 10_000)
            }
            #expect(try await shop.pending() == 0)
        }
    }

    @Test func deadSubmissionIsParkedForAHuman() async throws {
        try await Shop.run { shop in
            async let answer = shop.post(Shop.order(), wait: "wait=30")
            let lease = try await shop.lease()
            let status = SubmissionStatus(.dead, player: try PlayerID(validating: "ada"))
            _ = try await shop.worker.bury(lease, reasons: ["no-answer"], status: status.json)
            #expect(try await answer.summary == "503 parked contact-support")
            #expect(try await shop.post(Shop.order()).summary == "503 parked contact-support")
            #expect(try await shop.jobs.deadCount() == 1)
        }
    }

    @Test func severalPurchasesInOneReceiptAreAllNamed() async throws {
        try await Shop.run { shop in
            #expect(try await shop.post(Shop.order()).status == 202)
            let lease = try await shop.lease()
            let id = try Shop.id(of: Shop.order())
            var before = try await shop.credit("2000000000000021", id)
            before.wasAlreadyCredited = true
            let credits = [before, try await shop.credit("2000000000000022", id, quantity: 2)]
            let status = SubmissionStatus(.credited, player: try PlayerID(validating: "ada"), credits: credits)
            _ = try await shop.worker.settle(lease, status: status.json)
            let answer = try await shop.get("/shop/purchases/\(id.rawValue)")
            #expect(answer.summary == "200 credited finish")
            let purchases = try #require(try answer.json?.elements("purchases"))
            #expect(try purchases.map { try $0.string("transactionId") } == ["2000000000000021", "2000000000000022"])
            #expect(try purchases.map { try $0.bool("alreadyProcessed") } == [true, false])
            #expect(try purchases.map { try $0.object("granted").int64("gems") } == [550, 1100])
            #expect(answer.number("newBalance") == 1650)
            #expect(try answer.json?.bool("alreadyProcessed") == false)
        }
    }

    @Test func receiptThatIsCreditedInPartIsKept() async throws {
        try await Shop.run { shop in
            #expect(try await shop.post(Shop.order()).status == 202)
            let lease = try await shop.lease()
            let id = try Shop.id(of: Shop.order())
            let credits = [try await shop.credit("2000000000000023", id)]
            let status = SubmissionStatus(
                .pending, player: try PlayerID(validating: "ada"), retryAfterMilliseconds: 60_000, credits: credits)
            _ = try await shop.worker.retry(lease, after: .seconds(60), status: status.json)
            for answer in [try await shop.get("/shop/purchases/\(id.rawValue)"), try await shop.post(Shop.order())] {
                #expect(answer.summary == "202 pending keep")
                #expect(try answer.json?.elements("purchases").map { try $0.object("granted").int64("gems") } == [550])
                #expect(try answer.json?.object("balances").int64("gems") == 550)
                #expect(answer.number("newBalance") == nil && answer.number("retryAfterMs") == 60_000)
            }
            #expect(try await shop.pending() == 0)
        }
    }

    /// Given up, or refused for what was asked about: what lay beside it is in the wallet all the same.
    @Test(arguments: [SubmissionStatus.State.dead, .rejected])
    func receiptThatEndsBadlyShowsWhatIsCredited(state: SubmissionStatus.State) async throws {
        try await Shop.run { shop in
            let location = try #require(try await shop.post(Shop.order()).http.header("Location"))
            let lease = try await shop.lease()
            let credits = [try await shop.credit("2000000000000024", try Shop.id(of: Shop.order()))]
            let status = SubmissionStatus(
                state, player: try PlayerID(validating: "ada"),
                reason: state == .rejected ? .belongsToAnotherPlayer : nil, credits: credits)
            _ = try await shop.worker.settle(lease, status: status.json)
            let answer = try await shop.get(location)
            #expect(
                answer.summary
                    == (state == .dead
                        ? "503 parked contact-support" : "409 belongs-to-another-player contact-support"))
            #expect(
                try answer.json?.elements("purchases").map { try $0.string("transactionId") } == ["2000000000000024"])
            #expect(try answer.json?.object("balances").int64("gems") == 550)
        }
    }

    /// What is listed may be a part of the receipt; that it is the whole has to be said.
    @Test(arguments: [(false, "contact-support"), (true, "finish")])
    func mismatchMayBeFinishedOnlyWhenNothingIsLeftToCredit(isAllInWallet: Bool, action: String) async throws {
        try await Shop.run { shop in
            let location = try #require(try await shop.post(Shop.order()).http.header("Location"))
            let lease = try await shop.lease()
            let credits = [try await shop.credit("2000000000000025", try Shop.id(of: Shop.order()))]
            let status = SubmissionStatus(
                .rejected, player: try PlayerID(validating: "ada"), reason: .productMismatch, credits: credits,
                isAllInWallet: isAllInWallet)
            _ = try await shop.worker.settle(lease, status: status.json)
            let answer = try await shop.get(location)
            #expect(answer.summary == "422 product-mismatch \(action)")
            #expect(try answer.json?.elements("purchases").count == 1)
        }
    }

    /// While versions are exchanged one by one: never an error, and never "finish".
    @Test(arguments: [
        #"{"state":"rejected","userId":"ada","reason":"too-good-to-be-true"}"#, #"{"state":"unheard","userId":"ada"}"#,
    ])
    func statusOfANewerVersionIsKept(json: String) async throws {
        try await Shop.run { shop in
            let location = try #require(try await shop.post(Shop.order()).http.header("Location"))
            _ = try await shop.worker.settle(try await shop.lease(), status: Array(json.utf8))
            #expect(try await shop.get(location).summary == "202 pending keep")
            #expect(try await shop.post(Shop.order()).summary == "202 pending keep")
        }
    }

    @Test func pollForSomebodyElseIsLikeOneForNothing() async throws {
        try await Shop.run { shop in
            let location = try #require(try await shop.post(Shop.order()).http.header("Location"))
            #expect(try await shop.get(location + "?userId=ada").status == 202)
            let foreign = try await shop.get(location + "?userId=bob")
            let unknown = try await shop.get("/shop/purchases/0-00000000000000000000000000000000")
            #expect(foreign.summary == "404 unknown-submission retry")
            #expect(foreign.http.body == unknown.http.body)
        }
    }

    @Test func fullListRefusesAndChangesNothing() async throws {
        var plan = Shop.Plan()
        plan.pendingMax = 1
        try await Shop.run(plan) { shop in
            #expect(try await shop.post(Shop.order("a")).status == 202)
            let before = try await shop.snapshot()
            let refused = try await shop.post(Shop.order("b"), wait: "wait=30")
            #expect(refused.summary == "503 queue-full retry")
            #expect(refused.http.header("Retry-After") == "2")
            #expect(try await shop.snapshot().keys == before.keys)
            #expect(try await shop.pending() == 1)
            // What is queued already is not refused, and a free place is taken.
            #expect(try await shop.post(Shop.order("a")).status == 202)
            try await shop.settle(try await shop.lease(), .rejected, .cancelled, player: "a")
            #expect(try await shop.post(Shop.order("b")).status == 202)
        }
    }
}
