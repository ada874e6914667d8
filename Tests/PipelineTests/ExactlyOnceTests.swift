import Commerce
import Jobs
import ReceiptWorker
import Ledger
import Redis
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

/// Row 14: the same proof from a thousand tasks, two accounts, two workers: exactly one credit, one owner.
@LoopActor
@Suite(.serialized) struct ExactlyOnceTests {
    @Test(.timeLimit(.minutes(3)), arguments: [EmulatedStore.apple, .google])
    func receiptFromAThousandTasksHasOneOwner(store: EmulatedStore) async throws {
        var plan = Works.Plan()
        plan.workers = 2
        try await Works.run(plan) { works in
            let purchase = try works.buy(store)
            let answers = try await withThrowingTaskGroup(of: (String, Int).self) { group in
                for number in 0..<1000 {
                    let player = number.isMultiple(of: 2) ? "ada" : "bob"
                    group.addTask { @LoopActor @Sendable in
                        (player, try await works.submit(purchase, by: player).status)
                    }
                }
                var all: [(String, Int)] = []
                for try await one in group { all.append(one) }
                return all
            }
            let owners = Set(answers.filter { $0.1 == 200 }.map(\.0))
            #expect(owners.count == 1)
            #expect(answers.allSatisfy { $0.1 == (owners.contains($0.0) ? 200 : 409) })
            #expect(answers.count == 1000)
            try await eventually("everything to be done") { try await works.isIdle() }
            let totals = [try await works.totals("ada"), try await works.totals("bob")]
            #expect(totals.contains([550, 1, 1]) && totals.contains([0, 0, 1]))
        }
    }

    /// Around the API and its one submission: every copy goes through verify, claim and credit by itself.
    @Test(.timeLimit(.minutes(3)))
    func thousandCopiesOnTheListAreOneCredit() async throws {
        var plan = Works.Plan()
        plan.workers = 3
        try await Works.run(plan) { works in
            let purchase = try works.buy(.apple)
            let other = try works.buy(.apple)
            let legacy = try works.emulator.appReceipt(of: [purchase.id, other.id])
            for number in 0..<1000 {
                let player = number % 3 == 0 ? "bob" : "ada"
                let receipt = number % 5 == 0 ? legacy : purchase.receipt
                try await works.push(Works.order(receipt, player, product: nil), to: "apple")
            }
            try await eventually(within: .seconds(120), "all to be done") { try await works.isIdle() }
            let (ada, bob) = (try await works.totals("ada"), try await works.totals("bob"))
            #expect(ada[0] + bob[0] == 1100 && ada[1] + bob[1] == 2 && ada[2] == 2)
            #expect(try await works.jobs.deadCount() == 0)
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func manyPlayersManyPurchasesEachOnce() async throws {
        var plan = Works.Plan()
        plan.workers = 2
        try await Works.run(plan) { works in
            let players = (0..<20).map { "player-\($0)" }
            var orders: [String] = []
            for (index, player) in players.enumerated() {
                for number in 0..<10 {
                    let store: EmulatedStore = (index + number).isMultiple(of: 2) ? .apple : .google
                    orders.append(Works.order(try works.buy(store, by: player).receipt, player))
                }
            }
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for order in (orders + orders).shuffled() {
                    group.addTask { @LoopActor @Sendable in try await works.submit(order).status }
                }
                var all: [Int] = []
                for try await one in group { all.append(one) }
                return all
            }
            #expect(statuses.count == 400 && statuses.allSatisfy { $0 == 200 })
            for player in players {
                #expect(try await works.totals(player) == [5500, 10, 200])
            }
        }
    }
}
