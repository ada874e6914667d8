import HTTP
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

@testable import Lab

/// Goal: a load run hands in what was planned, measures from the schedule, and its audit holds on the real thing.
///
/// Method: the real API and worker in this process, both stores emulated, a private Redis; and fronts that lie.
@LoopActor @Suite(.serialized) struct LoadGeneratorTests {
    private static let credited = OutgoingResponse.json(
        200, Array(#"{"status":"credited","alreadyProcessed":false}"#.utf8))

    @Test func everyKindOfReceiptThroughTheAPIIsAnsweredRightAndAudited() async throws {
        try await LabScene.running { scene in
            try await scene.withTeller { url in
                var plan = try scene.plan(.api(urls: [url, url], key: LabScene.apiKey))
                plan.extent = .count(400)
                plan.pace = .closedLoop(concurrency: 16)
                plan.players = 20
                let load = try await LoadGenerator.run(plan)
                #expect(load.isClean, "\(load.text)")
                #expect(load.finished == 400 && load.handedIn.values.reduce(0, +) == 400)
                #expect(Set(load.handedIn.keys) == Set(SubmissionKind.allCases))
                #expect(load.latency.count == 400 && load.processes.last?.hasEnded == false)
                let audit = try await scene.audit(settle: .seconds(20), heard: load.heard)
                #expect(audit.isClean, "\(audit.text)")
                #expect(audit.mustBeCredited == load.handedIn[.purchase] && audit.entries == audit.mustBeCredited)
                #expect(try await scene.audit().isClean)
            }
        }
    }

    @Test func theListIsAnswered() async throws {
        try await LabScene.running { scene in
            try await scene.withTeller { _ in
                var plan = try scene.plan(.list)
                plan.extent = .count(300)
                plan.pace = .openLoop(perSecond: 400)
                plan.players = 20
                let load = try await LoadGenerator.run(plan)
                #expect(load.isClean, "\(load.text)")
                #expect(load.finished == 300)
                let audit = try await scene.audit(settle: .seconds(20), heard: load.heard)
                #expect(audit.isClean && audit.entries == load.handedIn[.purchase], "\(audit.text)")
            }
        }
    }

    @Test func pushingAloneLeavesTheProofToTheAudit() async throws {
        try await LabScene.running { scene in
            var plan = try scene.plan(.list)
            plan.extent = .count(100)
            plan.waitsForAnswers = false
            let load = try await LoadGenerator.run(plan)
            #expect(load.isClean && load.answers[.purchase]?["pushed"] == load.handedIn[.purchase])
            let before = try await scene.audit(heard: load.heard)
            #expect(before.differenceCounts[.missingCredit] == load.handedIn[.purchase])
            #expect(before.differenceCounts[.leftover] != nil)
            try await scene.withTeller { _ in
                let after = try await scene.audit(settle: .seconds(20), heard: load.heard)
                #expect(after.isClean, "\(after.text)")
            }
        }
    }

    @Test func aClosedLoopForATimeBuysMoreWhenItsStockEnds() async throws {
        try await LabScene.running { scene in
            try await FakeFront.running { _ in
                Self.credited
            } body: { url in
                var plan = try scene.plan(.api(urls: [url], key: "a.b"))
                plan.mix = .honest
                plan.extent = .duration(.milliseconds(800))
                plan.pace = .closedLoop(concurrency: 4)
                plan.stockSize = 4
                let load = try await LoadGenerator.run(plan)
                #expect(load.endedEarly == nil && load.finished > 4, "\(load.text)")
            }
        }
    }

    /// The front stands still once for half a second, and only one request may be under way: a generator that measured
    /// from its own sending would report one slow request.
    @Test func anOpenLoopCountsFromTheScheduledTime() async throws {
        try await LabScene.running { scene in
            var isFirst = true
            try await FakeFront.running { _ in
                if isFirst {
                    isFirst = false
                    try? await pause(for: .milliseconds(500))
                }
                return Self.credited
            } body: { url in
                var plan = try scene.plan(.api(urls: [url], key: "a.b"))
                plan.mix = .honest
                plan.extent = .count(100)
                plan.pace = .openLoop(perSecond: 200)
                plan.inFlightMax = 1
                let load = try await LoadGenerator.run(plan)
                #expect(load.latency.percentile(50) >= .milliseconds(200), "\(load.text)")
                #expect(load.latency.max >= .milliseconds(500))
            }
        }
    }

    @Test func aFrontThatLiesIsCaught() async throws {
        try await LabScene.running { scene in
            try await FakeFront.running { _ in
                Self.credited
            } body: { url in
                var plan = try scene.plan(.api(urls: [url], key: "a.b"))
                plan.extent = .count(200)
                let load = try await LoadGenerator.run(plan)
                let worthless = [SubmissionKind.replay, .forged, .pending].reduce(0) { $0 + (load.handedIn[$1] ?? 0) }
                #expect(worthless > 0 && load.wrongAnswerCount == worthless, "\(load.text)")
                let audit = try await scene.audit(heard: load.heard)
                #expect(audit.differenceCounts == [.reportedButMissing: load.handedIn[.purchase] ?? 0])
            }
        }
    }

    @Test func aRefusalOfAnHonestPurchaseIsCaught() async throws {
        try await LabScene.running { scene in
            try await FakeFront.running { _ in
                .json(422, Array(#"{"reason":"unknown-purchase"}"#.utf8))
            } body: { url in
                var plan = try scene.plan(.api(urls: [url], key: "a.b"))
                plan.mix = .honest
                plan.extent = .count(5)
                let load = try await LoadGenerator.run(plan)
                #expect(load.wrongAnswerCount == 5 && !load.isClean)
                #expect(try await scene.audit(heard: load.heard).differenceCounts == [.missingCredit: 5])
            }
        }
    }

    @Test(arguments: [true, false]) func aProductionRedisIsRefusedBeforeAnythingIsBought(_ isList: Bool) async throws {
        try await LabScene.running(isProduction: true) { scene in
            let plan = try scene.plan(isList ? .list : .api(urls: ["http://127.0.0.1:1"], key: "a.b"))
            await #expect(throws: LabError.productionRedis) { _ = try await LoadGenerator.run(plan) }
            #expect(scene.emulator.groundTruth.isEmpty)
        }
    }

    @Test func aStoppedRunSaysSoAndAwaitsItsAnswers() async throws {
        try await LabScene.running { scene in
            try await FakeFront.running { _ in
                try? await pause(for: .milliseconds(50))
                return Self.credited
            } body: { url in
                var plan = try scene.plan(.api(urls: [url], key: "a.b"))
                plan.mix = .honest
                plan.extent = .count(5000)
                plan.pace = .closedLoop(concurrency: 4)
                let generator = try LoadGenerator(plan)
                try await generator.prepare()
                let timer = EventLoop.shared.timer(after: .milliseconds(300)) { generator.stop() }
                let load = try await generator.run()
                timer.cancel()
                #expect(load.endedEarly == "stopped" && !load.isClean)
                #expect(load.finished > 0 && load.finished == load.handedIn[.purchase])
            }
        }
    }
}
