import Lab
import ServiceRuntime
import StoreEmulator
import Testing

/// The benchmarks do what they say on a small scale; what they find out is not looked at.
@Suite struct BenchTests {
    @Test func signaturesAreCounted() throws {
        let result = try SignatureBench.run(for: 0.01)
        #expect(result.verified >= 256 && result.cpu > .zero && result.perSecond > 0)
        #expect(result.text.contains("verifications/s"))
    }

    @Test(arguments: ["apple", "google"]) func everyReceiptOfTheListIsCredited(store: String) async throws {
        try await LabScene.running { scene in
            try await scene.withTeller { _ in
                var configuration = WorkerBench.Configuration(
                    redis: scene.labRedis, catalogue: try LabScene.catalogue(), store: store,
                    emulatorURL: scene.emulator.baseURL)
                configuration.count = 60
                configuration.warmUp = 20
                configuration.players = 5
                configuration.takesCensus = true
                let report = try await WorkerBench.run(configuration)
                #expect(report.isComplete && report.credited == 60)
                #expect(report.processes.map(\.name) == ["lab"] && report.memory != nil)
                #expect(report.text.contains(store) && report.text.contains("purchase"))
            }
        }
    }
}
