import Commerce
import Ledger
import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct LedgerCreditTests {
    typealias Fixture = LedgerFixture

    @Test func creditsOnceAndAnswersRepetitionsWithTheEntry() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let purchase = try Fixture.purchase("2000000403755054", quantity: 2)
            let balances = [CurrencyAmount(.gems, 1_100)]
            #expect(try await fixture.finish(purchase, player) == .credited(position: 1, balances: balances))
            let page = try await fixture.ledger.history(of: player)
            let entry = try #require(page.items.first?.entry)
            for _ in 1...3 {
                let again = try await fixture.finish(purchase, player)
                #expect(again == .alreadyCredited(position: 1, entry: entry, balances: balances))
            }
            var expected = LedgerEntry(crediting: purchase, submission: Fixture.submission)
            expected.creditedAtMilliseconds = entry.creditedAtMilliseconds
            #expect(entry == expected)
            #expect(try await fixture.ledger.wallet(of: player) == .init(balances: balances, entitlements: []))
            #expect(try await fixture.ledger.history(of: player) == page)
        }
    }

    @Test func repetitionsTellTheBalanceOfNow() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let first = try Fixture.purchase("1")
            _ = try await fixture.finish(first, player)
            _ = try await fixture.finish(try Fixture.purchase("2", gems: 7), player)
            guard case .alreadyCredited(1, _?, let balances) = try await fixture.finish(first, player) else {
                Issue.record("not a repetition")
                return
            }
            #expect(balances == [CurrencyAmount(.gems, 557)])
        }
    }

    @Test func entriesCarryTheTimeOfRedis() async throws {
        try await Fixture.running { fixture in
            func now() async throws -> Int64 {
                let time = try #require(try await fixture.send("TIME").elements)
                return try #require(time[0].int) * 1_000 + #require(time[1].int) / 1_000
            }
            let before = try await now()
            _ = try await fixture.finish(try Fixture.purchase("1"), try Fixture.player())
            let after = try await now()
            let page = try await fixture.ledger.history(of: try Fixture.player())
            let credited = try #require(page.items.first?.entry?.creditedAtMilliseconds)
            #expect((before...after).contains(credited))
        }
    }

    @Test func aHundredTasksCreditOnePurchaseOnce() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let purchase = try Fixture.purchase("1")
            let results = await fixture.finishTogether(Array(repeating: (purchase, player), count: 100))
            let outcomes = try results.map { try $0.get() }
            #expect(outcomes.count(where: \.isNew) == 1)
            #expect(try await fixture.ledger.wallet(of: player).balance(of: .gems) == 550)
            #expect(try await fixture.ledger.history(of: player).items.count == 1)
        }
    }

    @Test func onlyTheFirstOfTwoPlayersGetsAPurchase() async throws {
        try await Fixture.running { fixture in
            let purchase = try Fixture.purchase("1")
            let players = try (0..<50).map { try Fixture.player("player-\($0)") }
            let results = await fixture.finishTogether(players.map { (purchase, $0) })
            let winners = results.indices.filter { (try? results[$0].get()) != nil }
            #expect(winners.count == 1)
            var sum: Int64 = 0
            for player in players { sum += try await fixture.ledger.wallet(of: player).balance(of: .gems) }
            #expect(sum == 550)
            let loser = try #require(players.indices.first { $0 != winners.first })
            #expect(try await fixture.ledger.claim(purchase.key, for: players[loser]) == .belongsToAnother)
            #expect(try await fixture.ledger.position(of: purchase.key, in: players[loser]) == nil)
        }
    }

    /// A worker dies between claim and credit: the claim alone must never look like a credit.
    @Test func aClaimWithoutACreditIsGoneOnWith() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let purchase = try Fixture.purchase("1")
            #expect(try await fixture.ledger.claim(purchase.key, for: player) == .mine)
            #expect(try await fixture.ledger.position(of: purchase.key, in: player) == nil)
            #expect(try await fixture.ledger.claim(purchase.key, for: player) == .mine)
            #expect(try await fixture.finish(purchase, player).isNew)
            #expect(try await fixture.ledger.position(of: purchase.key, in: player) == 1)
        }
    }

    @Test func nonConsumablesGrantTheirEntitlement() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let plain = try Fixture.pass("1")
            #expect(try await fixture.finish(plain, player) == .credited(position: 1, balances: []))
            let withGems = try Fixture.pass("2", gems: 30, id: "starter_pass")
            let balances = [CurrencyAmount(.gems, 30)]
            #expect(try await fixture.finish(withGems, player) == .credited(position: 2, balances: balances))
            guard case .alreadyCredited(2, let entry?, balances) = try await fixture.finish(withGems, player) else {
                Issue.record("not a repetition")
                return
            }
            #expect(entry.grants.entitlements.map(\.rawValue) == ["starter_pass"])
            let wallet = try await fixture.ledger.wallet(of: player)
            #expect(wallet.entitlements.map(\.rawValue) == ["gold_pass", "starter_pass"])
            #expect(wallet.balances == balances)
            #expect(try await fixture.ledger.wallet(of: player, entitlements: false).entitlements.isEmpty)
            // Bought again after a refund: the entitlement keeps the entry that granted it first.
            _ = try await fixture.finish(try Fixture.pass("3"), player)
            #expect(try await fixture.send("HGET", "teller:{0}:entitlements:player-42", "gold_pass").text == "1")
        }
    }

    @Test func numbersBeyondADoublesPrecisionStayExact() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            for id in ["9007199254740993", "2000000403755054", "12345678901234567890123456789012"] {
                _ = try await fixture.finish(try Fixture.purchase(id, gems: 1), player)
            }
            _ = try await fixture.finish(try Fixture.purchase("4", gems: Limits.amountMax - 4), player)
            #expect(try await fixture.ledger.wallet(of: player).balance(of: .gems) == Limits.amountMax - 1)
            #expect(try await fixture.send("HGET", "teller:{0}:player:player-42", "gems").text == "9007199254740990")
            let ids = try await fixture.ledger.history(of: player).items.compactMap {
                $0.entry?.transactionID?.rawValue
            }
            #expect(ids == ["4", "12345678901234567890123456789012", "2000000403755054", "9007199254740993"])
        }
    }

    @Test func keysAreTheDocumentedOnesAndNeverExpire() async throws {
        try await Fixture.running { fixture in
            let purchase = try Fixture.pass("1", gems: 5)
            _ = try await fixture.finish(purchase, try Fixture.player())
            let number = purchase.key.digest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            let expected = [
                "teller:claims:\(number % Fixture.buckets)", "teller:{0}:entitlements:player-42",
                "teller:{0}:ledger:player-42", "teller:{0}:meta", "teller:{0}:player:player-42",
            ]
            let keys = try #require(try await fixture.send("KEYS", "*").elements).compactMap(\.text).sorted()
            #expect(keys == expected)
            for key in keys { #expect(try await fixture.send("TTL", .string(key)).int == -1) }
            let claim = try await fixture.send("HGET", .string(expected[0]), .bytes(purchase.key.digest))
            #expect(claim.text == "player-42")
        }
    }

    /// What Redis spends is commands: three per credit, and one script per 64 credits of a turn.
    @Test func creditsOfATurnShareAScript() async throws {
        try await Fixture.running { fixture in
            _ = try await fixture.finish(try Fixture.purchase("1"), try Fixture.player("warm-up"))
            let purchases = try (100..<228).map { (try Fixture.purchase("\($0)"), try Fixture.player("player-\($0)")) }
            for (purchase, player) in purchases { _ = try await fixture.ledger.claim(purchase.key, for: player) }
            var before: [String: Int] = [:]
            let commands = ["eval", "evalsha", "hmget", "rpush", "hset", "hget", "time"]
            for command in commands { before[command] = try await fixture.calls(command) }
            await withTaskGroup(of: Void.self) { group in
                for (purchase, player) in purchases {
                    group.addTask { @LoopActor @Sendable in
                        _ = try? await fixture.ledger.credit(purchase, to: player, submission: Fixture.submission)
                    }
                }
            }
            var spent: [String: Int] = [:]
            for command in commands { spent[command] = try await fixture.calls(command) - (before[command] ?? 0) }
            #expect(spent["hmget"] == 128 && spent["rpush"] == 128 && spent["hset"] == 128)
            let scripts = (spent["eval"] ?? 0) + (spent["evalsha"] ?? 0)
            #expect(scripts <= 4 && spent["hget"] == scripts && spent["time"] == scripts)
        }
    }
}
