import Commerce
import HTTP
import Jobs
import ServiceRuntime
import TestSupport
import Testing

@testable import ShopAPI

/// `Prefer: wait=N`, and everything that ends a wait.
@LoopActor
@Suite struct WaitingTests {
    @Test(arguments: ["wait=0", "respond-async, wait=0", "wait=\"0\"", "WAIT = 0"])
    func noWaitIsAnsweredAtOnce(prefer: String) async throws {
        var plan = Shop.Plan()
        plan.waitDefault = .seconds(30)
        try await Shop.run(plan) { shop in
            let began = ContinuousClock.now
            let answer = try await shop.post(Shop.order(), wait: prefer)
            #expect(answer.summary == "202 pending keep")
            #expect(ContinuousClock.now - began < .seconds(15))
            let id = try Shop.id(of: Shop.order()).rawValue
            #expect(answer.text("submissionId") == id)
            #expect(answer.http.header("Location") == "/shop/purchases/\(id)")
            #expect(answer.number("retryAfterMs") == 1000)
        }
    }

    /// What is malformed is as if it were not there (RFC 7240 §2): the default counts.
    @Test(arguments: [nil, "wait=abc", "wait=-1", "wait", "wait=", "wait=1.5", "wait=99999999999999999999", "nonsense"])
    func withoutAGoodPreferenceTheDefaultCounts(prefer: String?) async throws {
        try await Shop.run { shop in
            let began = ContinuousClock.now
            let answer = try await shop.post(Shop.order(), wait: prefer)
            #expect(answer.summary == "202 pending keep")
            #expect(ContinuousClock.now - began >= .milliseconds(300))
        }
    }

    @Test(arguments: ["wait=3600", "wait=100000000"])
    func waitIsCutDownToTheMaximum(prefer: String) async throws {
        var plan = Shop.Plan()
        plan.waitMax = .milliseconds(500)
        plan.waitDefault = .zero
        try await Shop.run(plan) { shop in
            let began = ContinuousClock.now
            let answer = try await shop.post(Shop.order(), wait: prefer)
            let took = ContinuousClock.now - began
            #expect(answer.status == 202 && took >= .milliseconds(500) && took < .seconds(30))
        }
    }

    @Test func settlementEndsTheWait() async throws {
        try await Shop.run { shop in
            async let answer = shop.post(Shop.order(), wait: "wait=30")
            try await eventually("the request to wait") { shop.waiting == 1 }
            try await shop.credit(try await shop.lease(), transaction: "2000000000000001")
            let credited = try await answer
            #expect(credited.summary == "200 credited finish")
            #expect(credited.text("transactionId") == "2000000000000001")
            #expect(credited.number("newBalance") == 550)
            #expect(try credited.json?.object("granted").int64("gems") == 550)
            #expect(try credited.json?.object("balances").int64("gems") == 550)
            #expect(try credited.json?.bool("alreadyProcessed") == false)
            #expect(shop.waiting == 0)
        }
    }

    @Test func everybodyWhoWaitsForAReceiptIsTold() async throws {
        try await Shop.run { shop in
            let answers = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 1...20 {
                    group.addTask { @LoopActor @Sendable in
                        try await shop.post(Shop.order(), wait: "wait=30").summary
                    }
                }
                try await eventually("all to wait") { shop.waiting == 20 }
                try await eventually("the receipt to be queued") { try await shop.pending() == 1 }
                try await shop.credit(try await shop.lease(), transaction: "2000000000000002")
                var answers: [String] = []
                for try await answer in group { answers.append(answer) }
                return answers
            }
            #expect(answers == Array(repeating: "200 credited finish", count: 20))
            let wallet = try await shop.get("/shop/wallet?userId=ada")
            #expect(try wallet.json?.object("balances").int64("gems") == 550)
        }
    }

    @Test func settlementDuringAnInterruptionOfTheFeedIsFoundWhenItIsBack() async throws {
        try await Shop.run { shop in
            async let answer = shop.post(Shop.order(), wait: "wait=30")
            try await eventually("the request to wait") { shop.waiting == 1 }
            await shop.stopFeed()
            try await shop.credit(try await shop.lease(), transaction: "2000000000000003")
            #expect(shop.waiting == 1)
            shop.startFeed()
            #expect(try await answer.summary == "200 credited finish")
        }
    }

    @Test func lostWakeUpIsMadeGoodAtTheDeadline() async throws {
        try await Shop.run { shop in
            await shop.stopFeed()
            async let answer = shop.post(Shop.order(), wait: "wait=6")
            try await eventually("the request to wait") { shop.waiting == 1 }
            try await shop.credit(try await shop.lease(), transaction: "2000000000000004")
            #expect(try await answer.summary == "200 credited finish")
        }
    }

    @Test func deadlineAnswersWithTheWorkersIntention() async throws {
        try await Shop.run { shop in
            async let answer = shop.post(Shop.order(), wait: "wait=6")
            let lease = try await shop.lease()
            let status = SubmissionStatus(
                .pending, player: try PlayerID(validating: "ada"), retryAfterMilliseconds: 42_000)
            _ = try await shop.worker.retry(lease, after: .seconds(42), status: status.json)
            let pending = try await answer
            #expect(pending.summary == "202 pending keep")
            #expect(pending.number("retryAfterMs") == 42_000)
            let location = try #require(pending.http.header("Location"))
            #expect(try await shop.get(location).number("retryAfterMs") == 42_000)
        }
    }

    /// An answer without balances is not held up by a wallet that cannot be read; one with balances says so.
    @Test func refusalIsToldWithoutTheWallet() async throws {
        try await Shop.run { shop in
            try await shop.damageWallet(of: "ada")
            for (state, expected) in [
                (SubmissionStatus.State.rejected, "422 refunded finish"),
                (.credited, "503 temporarily-unavailable retry"),
            ] {
                let order = Shop.order(receipt: Shop.signedReceipt + (state == .rejected ? "" : "AAAA"))
                async let answer = shop.post(order, wait: "wait=30")
                try await eventually("the request to wait") { shop.waiting == 1 }
                try await shop.settle(try await shop.lease(), state, state == .rejected ? .refunded : nil)
                #expect(try await answer.summary == expected)
            }
        }
    }

    /// Who waits hears of it at once; who asks again, knowing that much, waits for more.
    @Test func partialCreditEndsTheWaitOnce() async throws {
        try await Shop.run { shop in
            let id = try Shop.id(of: Shop.order())
            func postpone(_ lease: Lease, _ credits: [SubmissionStatus.Credit], isNews: Bool = true) async throws {
                let status = SubmissionStatus(.pending, player: try PlayerID(validating: "ada"), credits: credits)
                _ = try await shop.worker.retry(lease, after: .zero, status: status.json, isNews: isNews)
            }
            async let first = shop.post(Shop.order(), wait: "wait=30")
            try await eventually("the request to wait") { shop.waiting == 1 }
            let one = try await shop.credit("2000000000000005", id)
            try await postpone(try await shop.lease(), [one])
            let partly = try await first
            #expect(partly.summary == "202 pending keep")
            #expect(try partly.json?.elements("purchases").count == 1)

            async let second = shop.post(Shop.order(), wait: "wait=30")
            try await eventually("the request to wait") { shop.waiting == 1 }
            // The same again is no news.
            try await postpone(try await shop.lease(), [one])
            let other = try await shop.credit("2000000000000006", id)
            try await postpone(try await shop.lease(), [one, other])
            #expect(try await second.json?.elements("purchases").count == 2)
        }
    }

    @Test func wakeUpsForOthersAreNoAnswer() async throws {
        try await Shop.run { shop in
            async let answer = shop.post(Shop.order(), wait: "wait=1")
            try await eventually("the request to wait") { shop.waiting == 1 }
            shop.api.settled(["0-00000000000000000000000000000000"])
            shop.api.settled([try Shop.id(of: Shop.order()).rawValue])
            shop.api.feedResumed()
            #expect(try await answer.summary == "202 pending keep")
        }
    }

    @Test func clientThatGoesAwayFreesItsPlaceAndLosesNothing() async throws {
        try await Shop.run { shop in
            let sender = try Sender(port: shop.port)
            sender.send(Sender.request(Shop.order(), wait: 30))
            try await eventually("the request to wait") { shop.waiting == 1 }
            sender.close()
            try await eventually(within: .seconds(20), "its place to be free") { shop.waiting == 0 }
            try await shop.credit(try await shop.lease(), transaction: "2000000000000005")
            let again = try await shop.post(Shop.order(), wait: "wait=0")
            #expect(again.summary == "200 credited finish")
            #expect(try again.json?.bool("alreadyProcessed") == true)
        }
    }

    @Test func stopAnswersWhoeverWaits() async throws {
        try await Shop.run { shop in
            async let first = shop.post(Shop.order("a"), wait: "wait=30")
            async let second = shop.post(Shop.order("b"), wait: "wait=30")
            try await eventually("both to wait") { shop.waiting == 2 }
            shop.api.stopWaiting()
            #expect(try await first.summary == "202 pending keep")
            #expect(try await second.summary == "202 pending keep")
            // From now on nobody is made to wait.
            #expect(try await shop.post(Shop.order("c"), wait: "wait=30").summary == "202 pending keep")
            #expect(shop.waiting == 0)
        }
    }
}
