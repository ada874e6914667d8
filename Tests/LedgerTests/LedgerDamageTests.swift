import Commerce
import Ledger
import Redis
import ServiceRuntime
import TestSupport
import Testing

/// A server that lost, never had, or holds something else than what the ledger wrote.
@Suite struct LedgerDamageTests {
    typealias Fixture = LedgerFixture

    /// Everything in the server, as one text that changes with any value.
    private static func contents(_ fixture: Fixture) async throws -> [String: RedisValue] {
        var contents: [String: RedisValue] = [:]
        for key in try #require(try await fixture.send("KEYS", "*").elements).compactMap(\.text) {
            contents[key] = try await fixture.send("DUMP", .string(key))
        }
        return contents
    }

    static let wrongTypes = ["player", "ledger", "entitlements"]

    @Test(arguments: wrongTypes)
    func aKeyOfAnotherTypeStopsOnlyItsPlayer(_ part: String) async throws {
        try await Fixture.running { fixture in
            _ = try await fixture.send("SET", .string("teller:{0}:\(part):broken"), "x")
            let broken = try Fixture.player("broken")
            let bystanders = try (0..<10).map { try Fixture.player("bystander-\($0)") }
            let purchase = try Fixture.pass("1", gems: 5)
            _ = try await fixture.ledger.claim(purchase.key, for: broken)
            let before = try await Self.contents(fixture)
            await #expect(throws: LedgerError.damaged("a key holds another type")) {
                try await fixture.ledger.credit(purchase, to: broken, submission: Fixture.submission)
            }
            #expect(try await Self.contents(fixture) == before)
            var all = try bystanders.enumerated().map { (try Fixture.purchase("10\($0)"), $1) }
            all.insert((purchase, broken), at: 4)
            let results = await fixture.finishTogether(all)
            for (index, result) in results.enumerated() {
                #expect(((try? result.get())?.isNew ?? false) == (index != 4))
            }
            for key in ["teller:{0}:player:broken", "teller:{0}:ledger:broken", "teller:{0}:entitlements:broken"] {
                let type = try await fixture.send("TYPE", .string(key)).text
                #expect(type == (key.contains(part) ? "string" : "none"))
            }
        }
    }

    @Test func aBucketOfAnotherTypeIsDamage() async throws {
        try await Fixture.running { fixture in
            let purchase = try Fixture.purchase("1")
            let number = purchase.key.digest.prefix(4).reduce(0) { $0 << 8 | Int($1) } % Fixture.buckets
            _ = try await fixture.send("SET", .string("teller:claims:\(number)"), "x")
            await #expect(throws: LedgerError.damaged("a key holds another type")) {
                try await fixture.ledger.claim(purchase.key, for: try Fixture.player())
            }
        }
    }

    @Test(arguments: ["nan", "inf", "1.5", "x", "", "-inf"])
    func aBalanceThatIsNoIntegerIsNotAddedTo(_ stored: String) async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            _ = try await fixture.send("HSET", "teller:{0}:player:player-42", "gems", .string(stored))
            for purchase in [try Fixture.purchase("1"), try Fixture.pass("2", gems: 5)] {
                _ = try await fixture.ledger.claim(purchase.key, for: player)
                let before = try await Self.contents(fixture)
                await #expect(throws: LedgerError.damaged("a balance or mark is not an integer")) {
                    try await fixture.ledger.credit(purchase, to: player, submission: Fixture.submission)
                }
                #expect(try await Self.contents(fixture) == before)
            }
        }
    }

    @Test(arguments: [0, 1] as [Int64])
    func aBalanceEndsAtTheLimit(over: Int64) async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let balance = Limits.amountMax - 550 + over
            _ = try await fixture.send("HSET", "teller:{0}:player:player-42", "gems", .int(balance))
            let purchase = try Fixture.purchase("1")
            _ = try await fixture.ledger.claim(purchase.key, for: player)
            let before = try await Self.contents(fixture)
            let outcome = try await fixture.ledger.credit(purchase, to: player, submission: Fixture.submission)
            if over == 0 {
                #expect(outcome == .credited(position: 1, balances: [CurrencyAmount(.gems, Limits.amountMax)]))
            } else {
                #expect(outcome == .balanceTooLarge)
                #expect(try await Self.contents(fixture) == before)
            }
        }
    }

    @Test func aRepetitionWithoutItsEntryIsStillARepetition() async throws {
        try await Fixture.running { fixture in
            let purchase = try Fixture.purchase("1")
            let player = try Fixture.player()
            _ = try await fixture.finish(purchase, player)
            _ = try await fixture.send("LSET", "teller:{0}:ledger:player-42", 0, "{")
            let balances = [CurrencyAmount(.gems, 550)]
            let expected = CreditOutcome.alreadyCredited(position: 1, entry: nil, balances: balances)
            #expect(try await fixture.finish(purchase, player) == expected)
            _ = try await fixture.send("DEL", "teller:{0}:ledger:player-42")
            #expect(try await fixture.finish(purchase, player) == expected)
        }
    }

    /// Its empty marks would credit the world a second time.
    @Test(arguments: [true, false])
    func aWipedOrForeignRedisIsRefusedByEveryCall(wiped: Bool) async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let purchase = try Fixture.purchase("1")
            _ = try await fixture.finish(purchase, player)
            _ = try await fixture.send("FLUSHALL")
            if !wiped { _ = try await fixture.send("HSET", "teller:{0}:meta", "incarnation", "another") }
            let before = try await Self.contents(fixture)
            await #expect(throws: LedgerError.foreignRedis) {
                try await fixture.ledger.credit(purchase, to: player, submission: Fixture.submission)
            }
            await #expect(throws: LedgerError.foreignRedis) { try await fixture.ledger.wallet(of: player) }
            await #expect(throws: LedgerError.foreignRedis) { try await fixture.ledger.history(of: player) }
            await #expect(throws: LedgerError.foreignRedis) {
                try await fixture.ledger.position(of: purchase.key, in: player)
            }
            #expect(try await Self.contents(fixture) == before)
            #expect(!LedgerError.foreignRedis.isDamage)
        }
    }
}
