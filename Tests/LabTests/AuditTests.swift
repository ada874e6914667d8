import Commerce
import Lab
import Redis
import ServiceRuntime
import Signing
import StoreEmulator
import TestSupport
import Testing

/// Goal: the audit sees every way in which money can be wrong, and nothing where nothing is.
///
/// Method: a clean state in a real Redis, one damage by hand, one audit.
@LoopActor @Suite(.serialized) struct AuditTests {
    @Test func aCleanStateIsClean() async throws {
        try await LabScene.running { scene in
            for _ in 0..<3 { try await scene.credit(try scene.buy()) }
            try await scene.credit(try scene.buy("ben", "gems_500", store: .google))
            try await scene.credit(try scene.buy("ben", "com.mygame.skin.starter"))
            try await scene.credit(try scene.buy("ada", "skin_starter", store: .google))
            _ = try scene.buy("eve") { $0.signer = .rogueRoot }
            _ = try scene.buy("eve", "gems_500", store: .google) { $0.state = .pending }
            let report = try await scene.audit()
            #expect(report.isClean, "\(report.text)")
            #expect(report.purchases == 8 && report.mustBeCredited == 6 && report.mustNotBeCredited == 2)
            #expect(report.entries == 6 && report.balances == ["gems": 2200])
        }
    }

    /// More entries than one page of the ledger's history, and than one page of the audit's own.
    @Test func longLedgersAreReadToTheirEnd() async throws {
        try await LabScene.running { scene in
            for _ in 0..<1203 { try await scene.credit(try scene.buy()) }
            let report = try await scene.audit()
            #expect(report.isClean, "\(report.text)")
            #expect(report.entries == 1203)
            _ = try await scene.send("LSET", "teller:{0}:ledger:ada", "1", "broken")
            #expect(try await scene.audit().differenceCounts[.unreadable] == 1)
        }
    }

    private typealias Damage = @LoopActor @Sendable (LabScene) async throws -> Void

    private nonisolated static let damages: [(AuditDifference.Kind, String, Damage)] = [
        (.missingCredit, "a purchase nobody credited", { _ = try $0.buy() }),
        (
            .doubledCredit, "the same entry twice, balance and all",
            { scene in
                let entry = try await scene.send("LINDEX", "teller:{0}:ledger:ada", "0")
                _ = try await scene.send("RPUSH", "teller:{0}:ledger:ada", .bytes(entry.bytes ?? []))
                _ = try await scene.send("HINCRBY", "teller:{0}:player:ada", "gems", "550")
            }
        ),
        (.wrongPlayer, "credited to a thief", { try await $0.credit(try $0.buy("ben"), to: "eve") }),
        (
            .worthlessCredit, "a forged receipt was believed",
            { try await $0.credit(try $0.buy { $0.signer = .rogueRoot }) }
        ),
        (
            .worthlessCredit, "an unpaid purchase was credited",
            { try await $0.credit(try $0.buy("ada", "gems_500", store: .google) { $0.state = .pending }) }
        ),
        (
            .unknownPurchase, "made out of nothing",
            { try await $0.credit(.apple, "2000000999999999", "com.mygame.gems.500", to: "eve") }
        ),
        (
            .wrongAmount, "more granted than bought",
            {
                try await $0.credit(
                    .apple, try $0.buy("ada", "com.mygame.gems.100").id, "com.mygame.gems.500", to: "ada")
            }
        ),
        (
            .balanceMismatch, "gems without an entry",
            { _ = try await $0.send("HINCRBY", "teller:{0}:player:ada", "gems", "1") }
        ),
        (
            .balanceMismatch, "a balance that vanished",
            { _ = try await $0.send("HDEL", "teller:{0}:player:ada", "gems") }
        ),
        (
            .markMismatch, "a mark too many",
            { _ = try await $0.send("HSET", "teller:{0}:player:ada", .bytes(Array(200...215)), "9") }
        ),
        (
            .entitlementMismatch, "a right that nobody bought",
            { _ = try await $0.send("HSET", "teller:{0}:entitlements:ada", "starter_skin", "1") }
        ),
        (
            .claimMismatch, "claims were lost",
            { scene in for bucket in 0..<64 { _ = try await scene.send("DEL", "teller:claims:\(bucket)") } }
        ),
        (
            .balanceMismatch, "a wallet of a player who never bought",
            { _ = try await $0.send("HSET", "teller:{0}:player:mallory", "gems", "1000000") }
        ),
        (
            .missingDuty, "a credited purchase that is not consumed",
            { try await $0.credit(.google, try $0.buy("ada", "gems_500", store: .google).id, "gems_500", to: "ada") }
        ),
        (
            .missingDuty, "a consumable that is only acknowledged",
            { scene in
                let record = try scene.buy("ada", "gems_500", store: .google)
                try await scene.credit(.google, record.id, "gems_500", to: "ada")
                try await scene.perform(.googleAcknowledge, on: record)
            }
        ),
        (
            .missingDuty, "a credited non-consumable that is not acknowledged",
            {
                let record = try $0.buy("ada", "skin_starter", store: .google)
                try await $0.credit(.google, record.id, "skin_starter", to: "ada")
            }
        ),
        (
            .unearnedDuty, "a purchase that was taken from its buyer and not credited",
            { scene in
                let record = try scene.buy("ada", "gems_500", store: .google) { $0.isTest = true }
                try await scene.perform(.googleConsume, on: record)
            }
        ),
        (.leftover, "pending", { _ = try await $0.send("LPUSH", "teller:{0}:pending:apple", "{}") }),
        (.leftover, "arrived", { _ = try await $0.send("LPUSH", "teller:{0}:arrived:google", "{}") }),
        (.leftover, "suspects", { _ = try await $0.send("LPUSH", "teller:{0}:suspects:google", "{}") }),
        (.leftover, "retry", { _ = try await $0.send("ZADD", "teller:{0}:retry:google-duty", "1", "{}") }),
        (.leftover, "a dead worker's leases", { _ = try await $0.send("HSET", "teller:{0}:running:a:1:b", "1", "{}") }),
        (.leftover, "a queue nobody knows", { _ = try await $0.send("LPUSH", "teller:{0}:pending:other", "{}") }),
    ]

    @Test(arguments: damages.indices) func aDamageIsSeenAsWhatItIs(_ index: Int) async throws {
        let (kind, what, damage) = Self.damages[index]
        try await LabScene.running { scene in
            try await scene.credit(try scene.buy())
            try await scene.credit(try scene.buy("ben"))
            try await damage(scene)
            let report = try await scene.audit()
            #expect(report.differenceCounts[kind] != nil, "\(what): \(report.text)")
            #expect(!report.isClean)
            // What is wrong is named, and nothing else is suspected; taking gems for a credit is two things at once.
            let others = Set(report.differenceCounts.keys).subtracting([kind])
            #expect(others.isSubset(of: [.markMismatch]), "\(what): \(report.text)")
        }
    }

    @Test func whatGoogleNeedNotHearIsNotMissed() async throws {
        try await LabScene.running { scene in
            // Refunded meanwhile: there is nothing left to tell.
            let refunded = try scene.buy("ada", "gems_500", store: .google)
            try await scene.credit(.google, refunded.id, "gems_500", to: "ada")
            try scene.emulator.move(refunded.id, to: .refunded)
            #expect(try await scene.audit().isClean)
            // The game consumes by itself, at its own time.
            let acknowledged = try scene.buy("ben", "gems_500", store: .google)
            try await scene.credit(.google, acknowledged.id, "gems_500", to: "ben")
            try await scene.perform(.googleAcknowledge, on: acknowledged)
            #expect(try await scene.audit().differenceCounts == [.missingDuty: 1])
            #expect(try await scene.audit(consumesAtServer: false).isClean)
        }
    }

    @Test func whatAClientHeardIsHeldAgainstTheWallet() async throws {
        try await LabScene.running { scene in
            let lost = try scene.buy()
            let unheard = try scene.buy("ben")
            var heard = HeardAnswers()
            #expect(try await scene.audit(heard: heard).isClean)
            heard = .hearing(credited: [lost.id])
            let report = try await scene.audit(heard: heard)
            #expect(report.differenceCounts == [.reportedButMissing: 1], "\(report.text)")
            #expect(report.mayBeCredited == 1)
            #expect(try await scene.audit().differenceCounts == [.missingCredit: 2])
            try await scene.credit(unheard)
            #expect(try await scene.audit(heard: heard).differenceCounts == [.reportedButMissing: 1])
        }
    }

    @Test func theAuditWaitsForTheListsToDrain() async throws {
        try await LabScene.running { scene in
            try await scene.credit(try scene.buy())
            _ = try await scene.send("LPUSH", "teller:{0}:pending:apple", "{}")
            let drain = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
                try await pause(for: .milliseconds(400))
                _ = try await scene.send("DEL", "teller:{0}:pending:apple")
            }
            let report = try await scene.audit(settle: .seconds(20))
            try await drain.value
            #expect(report.isClean, "\(report.text)")
            #expect((report.settledAfter ?? .zero) > .milliseconds(100))
        }
    }

    @Test func aProductionRedisIsRefused() async throws {
        try await LabScene.running(isProduction: true) { scene in
            await #expect(throws: LabError.productionRedis) { _ = try await scene.audit() }
        }
    }

    @Test func aRedisThatIsNoTellersIsAnError() async throws {
        try await LabScene.running { scene in
            _ = try await scene.send("DEL", "teller:{0}:meta")
            await #expect(throws: LabError.self) { _ = try await scene.audit() }
        }
    }

    @Test func theReportIsTheSameAsJSON() async throws {
        try await LabScene.running { scene in
            _ = try scene.buy()
            let report = try await scene.audit()
            var json = JSONWriter()
            json.object { report.write(to: &$0) }
            let view = try JSONView.parse(json.bytes)
            #expect(try view.bool("clean") == false)
            #expect(try view.object("differenceCounts").int64("missing-credit") == 1)
            #expect(try view.elements("differences").first?.string("player") == "ada")
            #expect(report.text.contains("1 DIFFERENCES"))
        }
    }
}
