public import ServiceRuntime
import StoreEmulator

/// Hands in receipts while everything around them breaks, then audits.
///
/// Blows come from three sides, each with dice of its own from one seed: processes are killed, frozen and started again;
/// Redis goes away and comes back; the stores (and, through the proxy, the network) fail. When the last receipt has been
/// handed in the blows stop, what is down is started, and the queues get time to drain: "exactly once" is about what is
/// left then.
@LoopActor
public final class ChaosRun {
    private let plan: ChaosPlan
    private let harness: FaultHarness
    private let orphans: OrphanWatch
    private let log: @LoopActor (String) -> Void
    private var report: ChaosReport
    private var isOver = false
    private var progress = 0.0
    /// Restarts and thaws that are still to come, and watches over orphans.
    private var errands: [Task<Void, any Error>] = []
    private var generator: LoadGenerator?

    private init(_ plan: ChaosPlan, _ harness: FaultHarness, _ log: @escaping @LoopActor (String) -> Void) {
        self.plan = plan
        self.harness = harness
        let begin = MonotonicInstant.now
        self.log = { log("\(LabText.seconds(begin.elapsed)) s  \($0)") }
        report = ChaosReport(plan: plan)
        orphans = OrphanWatch(harness.connection)
    }

    /// Runs a plan.
    ///
    /// - Parameters:
    ///   - plan: What to do.
    ///   - keepsFiles: Whether the logs stay when the run is not clean.
    ///   - log: Gets a line for each event.
    ///   - progress: Gets the load generator's progress.
    /// - Returns: What was done and seen; differences are in it.
    /// - Throws: When the run itself cannot be done.
    public static func run(
        _ plan: ChaosPlan, keepsFiles: Bool = true, log: @escaping @LoopActor (String) -> Void = { _ in },
        progress: @escaping @LoopActor (LoadProgress) -> Void = { _ in }
    ) async throws -> ChaosReport {
        var configuration = FaultHarness.Configuration()
        configuration.apis = plan.apis
        configuration.workers = plan.workers
        configuration.usesProxy = plan.networkFails
        configuration.seed = plan.seed
        let harness = try FaultHarness(configuration)
        let run = ChaosRun(plan, harness, log)
        do {
            try await harness.start()
            try await run.run(progress)
        } catch {
            await harness.stop(keepingFiles: true)
            throw LabError.stage("\(error) (files: \(harness.directory))")
        }
        let isClean = run.report.complaints.isEmpty
        if !isClean, keepsFiles { log("logs: \(harness.directory)") }
        await harness.stop(keepingFiles: !isClean && keepsFiles)
        return run.report
    }

    private func run(_ tell: @escaping @LoopActor (LoadProgress) -> Void) async throws {
        var load = LoadPlan(
            target: .api(urls: harness.apiURLs, key: harness.apiKey), redis: LabRedis(url: harness.redisURL),
            emulatorURL: harness.emulator.baseURL, catalogue: harness.catalogue)
        load.pace = plan.perSecond.map { .openLoop(perSecond: $0) } ?? .closedLoop(concurrency: plan.concurrency)
        load.extent = .count(plan.receipts)
        load.mix = plan.mix
        load.seed = plan.seed
        load.players = plan.players
        let generator = try LoadGenerator(load) { now in
            if now.phase != .buying { self.progress = Double(now.finished) / Double(max(1, self.plan.receipts)) }
            if now.phase == .draining { self.isOver = true }
            tell(now)
        }
        self.generator = generator
        try await generator.prepare()
        let sides = start()
        report.load = try await generator.run()
        isOver = true
        for side in sides { try await side.value }
        try await mend()
        var audit = Audit.Configuration(
            redis: LabRedis(url: harness.redisURL), emulatorURL: harness.emulator.baseURL, catalogue: harness.catalogue)
        audit.settle = plan.settle
        audit.heard = report.load.heard
        log("auditing")
        report.audit = try await Audit.run(audit)
        report.orphans = orphans.times
    }

    private func start() -> [Task<Void, any Error>] {
        func side(_ body: @escaping @LoopActor @Sendable () async throws -> Void) -> Task<Void, any Error> {
            Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in try await body() }
        }
        var sides = [side { try await self.watchMemory() }]
        if plan.strikeEvery > .zero { sides.append(side { try await self.strikeProcesses() }) }
        if plan.redisRestarts > 0 { sides.append(side { try await self.strikeRedis() }) }
        if plan.storesFail { sides.append(side { try await self.strikeStores() }) }
        if plan.networkFails { sides.append(side { try await self.strikeNetwork() }) }
        return sides
    }

    /// Everything runs again, and nothing fails any more.
    private func mend() async throws {
        for errand in errands { try await errand.value }
        harness.emulator.setFaults(FaultKnobs(), for: "*")
        harness.proxy?.isBlackHole = false
        for process in harness.processes where !process.isRunning { try process.start() }
        for process in harness.processes { try await process.waitUntilReady(harness.http) }
    }

    private func dice(_ number: UInt64) -> SeededDice { SeededDice(seed: plan.seed &* 16 &+ number) }

    /// Waits, and says whether the run goes on.
    private func goesOn(after delay: Duration) async throws -> Bool {
        let begin = MonotonicInstant.now
        while !isOver, begin.elapsed < delay { try await pause(for: .milliseconds(50)) }
        return !isOver
    }

    private func errand(_ body: @escaping @LoopActor @Sendable () async throws -> Void) {
        errands.append(Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in try await body() })
    }

    private func count(_ strike: String) { report.strikes[strike, default: 0] += 1 }

    // MARK: - Processes

    private func strikeProcesses() async throws {
        var dice = dice(1)
        while try await goesOn(after: plan.strikeEvery * Double.random(in: 0.5...1.5, using: &dice)) {
            // One of each role stays at work, or there would be nobody to take over.
            let targets = harness.processes.filter { process in
                process.isAtWork
                    && harness.processes.contains { $0 !== process && $0.role == process.role && $0.isAtWork }
            }
            guard let target = targets.randomElement(using: &dice) else { continue }
            let away = Duration.seconds(Double.random(in: 0.2...3, using: &dice))
            if Double.random(in: 0..<1, using: &dice) < plan.freezeShare {
                count("SIGSTOP \(target.role.rawValue)")
                log("freezing \(target.name)")
                target.freeze()
                errand {
                    try await pause(for: .seconds(3) + away)
                    target.thaw()
                }
                continue
            }
            try await kill(target, for: away)
        }
    }

    private func kill(_ target: TellerProcess, for away: Duration) async throws {
        count("SIGKILL \(target.role.rawValue)")
        log("killing \(target.name)")
        guard let pid = target.pid else { return }
        let at = await target.kill()
        if target.role == .worker {
            errand {
                guard let slowest = await self.orphans.watch(pid: pid, killedAt: at) else { return }
                self.log("the last receipt of \(target.name) was back after \(LabText.milliseconds(slowest)) ms")
            }
        }
        errand {
            try await pause(for: away)
            guard !target.isRunning else { return }
            try target.start()
            self.log("started \(target.name)")
        }
    }

    // MARK: - Redis

    private func strikeRedis() async throws {
        var dice = dice(2)
        let kinds: [RedisOutage.Kind] = [.killed, .restarted, .killed, .frozen]
        for number in 0..<plan.redisRestarts {
            let due = (Double(number) + 0.7) / (Double(plan.redisRestarts) + 0.5)
            while progress < due { guard try await goesOn(after: .milliseconds(50)) else { break } }
            guard !isOver else {
                return log("the receipts ran out before Redis was struck \(plan.redisRestarts) times")
            }
            let kind = kinds[number % kinds.count]
            try await takeRedisAway(kind, for: .seconds(Double.random(in: 0.2...4, using: &dice)))
        }
    }

    private func takeRedisAway(_ kind: RedisOutage.Kind, for away: Duration) async throws {
        count("redis \(kind.rawValue)")
        log("redis is \(kind.rawValue)")
        orphans.isRedisAway = true
        let outage = try await harness.takeRedisAway(kind, for: away) {
            self.orphans.redisReturnedAt = .now
            self.orphans.isRedisAway = false
        }
        let resumed = outage.resumedAfter.map { LabText.milliseconds($0) } ?? "more than 10000"
        log("redis is back after \(LabText.seconds(outage.away)) s; first settled \(resumed) ms later")
        report.outages.append(outage)
    }

    // MARK: - Stores and network

    private func strikeStores() async throws {
        var dice = dice(3)
        while true {
            harness.emulator.setFaults(
                FaultKnobs(latency: .milliseconds(2), jitter: .milliseconds(20)), for: "*")
            guard try await goesOn(after: .seconds(Double.random(in: 1...4, using: &dice))) else { return }
            let kinds: [StoreFault.Kind] = [
                .status(503), .throttled(retryAfter: .milliseconds(500)), .reset, .hang, .badGatewayPage, .truncated,
            ]
            guard let kind = kinds.randomElement(using: &dice) else { return }
            count("stores: \(kind)".prefix { $0 != "(" }.description)
            let fault = StoreFault(
                kind, share: Double.random(in: 0.02...0.15, using: &dice), count: 200,
                happensAfterEffect: Bool.random(using: &dice))
            harness.emulator.setFaults(
                FaultKnobs(latency: .milliseconds(20), jitter: .milliseconds(80), faults: [fault]),
                for: ["apple", "google"].randomElement(using: &dice) ?? "*")
            guard try await goesOn(after: .seconds(Double.random(in: 0.5...3, using: &dice))) else { return }
        }
    }

    private func strikeNetwork() async throws {
        var dice = dice(4)
        while try await goesOn(after: .seconds(Double.random(in: 1...3, using: &dice))) {
            guard let proxy = harness.proxy else { return }
            if Double.random(in: 0..<1, using: &dice) < 0.2 {
                try await takeRedisAway(.unreachable, for: .seconds(Double.random(in: 0.3...3, using: &dice)))
                continue
            }
            let label = proxy.seen.keys.sorted().randomElement(using: &dice) ?? ""
            let moment = RedisProxy.Moment.allCases.randomElement(using: &dice) ?? .afterItWasApplied
            count("connection cut \(moment.rawValue)")
            proxy.cutNothing()
            proxy.cut(label, moment)
        }
        harness.proxy?.cutNothing()
    }

    // MARK: - Memory

    private func watchMemory() async throws {
        while try await goesOn(after: .milliseconds(500)) {
            for process in harness.processes where process.startedAt.elapsed > .seconds(2) {
                guard let bytes = process.residentBytes else { continue }
                report.memory.note(process.role.rawValue, progress: progress, bytes: bytes)
            }
            for process in harness.processes where process.hasEndedByItself {
                log("\(process.name) has ended by itself, see \(process.log)")
                report.endedByThemselves += 1
                try process.start()
            }
            if let bytes = harness.redis.residentBytes {
                report.memory.note("redis", progress: progress, bytes: bytes)
            }
        }
    }
}
