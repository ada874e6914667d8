import Commerce
import Ledger
import Redis
import ServiceRuntime
import TestSupport
import Testing

/// What the ledger promises while Redis is full, killed or restarted.
@Suite struct LedgerOutageTests {
    typealias Fixture = LedgerFixture

    @Test func aFullRedisStillClaimsAndCredits() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            _ = try await fixture.finish(try Fixture.purchase("1"), player)
            _ = try await fixture.send("CONFIG", "SET", "maxmemory", "1")
            await #expect(throws: RedisError.self) { try await fixture.send("SET", "filler", "x") }
            #expect(try await fixture.finish(try Fixture.purchase("2"), player).isNew)
            #expect(try await fixture.finish(try Fixture.pass("3", gems: 5), player).isNew)
            let other = try Fixture.player("other")
            #expect(try await fixture.ledger.claim(try Fixture.purchase("2").key, for: other) == .belongsToAnother)
            let wallet = try await fixture.ledger.wallet(of: player)
            #expect(wallet.balance(of: .gems) == 1_105)
            #expect(wallet.entitlements.map(\.rawValue) == ["gold_pass"])
            #expect(try await fixture.ledger.history(of: player).items.count == 3)
        }
    }

    @Test func whatWasAnsweredSurvivesAKill() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            let purchase = try Fixture.purchase("1")
            _ = try await fixture.finish(purchase, player)
            let page = try await fixture.ledger.history(of: player)
            try await fixture.server.restart()
            try await fixture.redis.ready(within: .seconds(10))
            #expect(try await fixture.ledger.claim(purchase.key, for: player) == .mine)
            #expect(try await fixture.ledger.claim(purchase.key, for: try Fixture.player("other")) == .belongsToAnother)
            #expect(try await !fixture.finish(purchase, player).isNew)
            #expect(try await fixture.ledger.history(of: player) == page)
        }
    }

    /// Goal: an unknown outcome may simply be tried again.
    ///
    /// Method: 400 purchases at once, the server killed among them; all are repeated until each has an answer.
    @Test func repeatingAfterAKillCreditsEachOnce() async throws {
        try await Fixture.running { fixture in
            let players = try (0..<20).map { try Fixture.player("player-\($0)") }
            let all = try (0..<400).map { (try Fixture.purchase("\($0 + 1)"), players[$0 % players.count]) }
            let killer = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
                try await eventually("some are credited") { try await fixture.calls("rpush") >= 60 }
                try await fixture.server.restart()
            }
            var open = all
            var failures = 0
            for round in 0..<50 where !open.isEmpty {
                // The first round goes in small steps, so that the kill falls between them.
                var failed: [(VerifiedPurchase, PlayerID)] = []
                for start in stride(from: 0, to: open.count, by: 20) {
                    let step = Array(open[start..<min(start + 20, open.count)])
                    for (purchase, result) in zip(step, await fixture.finishTogether(step)) {
                        if case .failure(let error) = result {
                            guard case .redis(let reason)? = error as? LedgerError, reason.isRetryable else {
                                throw error
                            }
                            failed.append(purchase)
                        }
                    }
                }
                failures += failed.count
                open = failed
                if !open.isEmpty { try await fixture.redis.ready(within: .seconds(10)) }
                if round == 49 { Issue.record("no end") }
            }
            try await killer.value
            try await fixture.redis.ready(within: .seconds(10))
            for player in players {
                #expect(try await fixture.ledger.wallet(of: player).balance(of: .gems) == 20 * 550)
                #expect(try await fixture.ledger.history(of: player).items.count == 20)
            }
        }
    }
}
