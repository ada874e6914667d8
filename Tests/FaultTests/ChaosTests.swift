import Lab
import ServiceRuntime
import Testing

extension RealProcessTests {
    /// Goal: exactly once, whatever breaks.
    ///
    /// Method: a thousand receipts of all kinds while workers and APIs are killed and
    /// frozen, Redis is killed, restarted and unreachable, connections are cut around commands and the stores fail; all
    /// by dice from one seed; then every wallet is held against what the stores sold.
    @Test @LoopActor func aThousandReceiptsInChaosAreCreditedExactlyOnce() async throws {
        var plan = ChaosPlan()
        plan.receipts = 1000
        plan.perSecond = 40
        plan.players = 100
        plan.workers = 2
        plan.strikeEvery = .seconds(2)
        plan.redisRestarts = 2
        plan.networkFails = true
        plan.seed = 20_261_130
        // How soon work resumes is measured by itself elsewhere: here the blows overlap.
        plan.limits = (.seconds(60), .seconds(60))
        let report = try await ChaosRun.run(plan)
        #expect(report.complaints.isEmpty, "\(report.text)")
        #expect(report.strikes.filter { $0.key.hasPrefix("SIGKILL") }.values.reduce(0, +) >= 3)
        #expect(report.outages.count >= 2)
    }
}
