import Glibc
public import ServiceRuntime

/// Where a run stands, for whoever watches.
public struct LoadProgress: Sendable {
    /// What is going on.
    public enum Phase: Sendable, Equatable {
        /// Buying before the clock starts.
        case buying
        /// Handing in.
        case running
        /// No more is handed in; the last answers are awaited.
        case draining
    }

    /// What is going on.
    public var phase: Phase
    /// Since the phase `running` began; zero while buying.
    public var elapsed: Duration = .zero
    /// Receipts bought (while buying) or handed in.
    public var done = 0
    /// How many there will be; nil when only time decides.
    public var total: Int?
    /// Handed in and not answered.
    public var inFlight = 0
    /// Final answers.
    public var finished = 0
    /// Final answers a second since the last progress.
    public var perSecond: Double = 0
    /// Repetitions so far.
    public var retries = 0
    /// Answers that contradict the ground truth.
    public var wrongAnswers = 0
    /// 99th percentile of the latency so far.
    public var p99: Duration = .zero
}

/// Hands receipts in at a planned pace, keeps to it whatever the answers do, and notes what it was told.
///
/// It shares the machine with the system under test, so everything that costs time is done before the clock starts: the
/// purchases are made and signed, the order of kinds is decided. While the clock runs, a receipt costs one task, the
/// copying of its body and one request. A client behaves as a real game server must: the same request again, on a lost
/// connection, on 5xx and on 202, until the answer is final.
@LoopActor
public final class LoadGenerator {
    private let plan: LoadPlan
    private let progress: @LoopActor (LoadProgress) -> Void
    private let emulator: EmulatorClient
    private let target: any LoadTarget
    private let stock: SubmissionStock
    private let watch: ProcessWatch
    private let notes = DeliveryNotes()

    private var report = LoadReport()
    private var isStopping = false
    private var isPrepared = false
    private var handedIn = 0
    private var inFlight = 0
    private var begin = MonotonicInstant.now
    private var lastAnswerAt = MonotonicInstant.now
    private var lastProgress = (at: MonotonicInstant.now, finished: 0)

    /// How often progress is told.
    private static let progressInterval: Duration = .milliseconds(500)

    /// Reads the plan; nothing is sent yet.
    ///
    /// - Throws: ``LabError`` when the plan contradicts itself.
    public init(_ plan: LoadPlan, progress: @escaping @LoopActor (LoadProgress) -> Void = { _ in }) throws {
        try plan.check()
        self.plan = plan
        self.progress = progress
        emulator = EmulatorClient(plan.emulatorURL)
        switch plan.target {
        case .api(let urls, let key): target = APITarget(urls: urls, key: key, plan: plan)
        case .list: target = try ListTarget(plan)
        }
        stock = try SubmissionStock(plan, emulator: emulator, refillTo: plan.total == nil ? plan.stockSize : 0)
        watch = ProcessWatch(plan.watchedProcesses + [getpid()])
    }

    /// Runs a plan from beginning to end.
    public static func run(
        _ plan: LoadPlan, progress: @escaping @LoopActor (LoadProgress) -> Void = { _ in }
    ) async throws -> LoadReport {
        try await LoadGenerator(plan, progress: progress).run()
    }

    /// Makes the purchases, unless a run should do it itself; refuses a production Redis before the first.
    public func prepare() async throws {
        guard !isPrepared else { return }
        isPrepared = true
        raiseFileLimit()
        try await plan.redis.refuseProduction()
        let count = plan.total ?? plan.stockSize
        try await stock.prepare(count) { done in
            progress(LoadProgress(phase: .buying, done: done, total: count))
        }
    }

    /// Hands everything in and waits for the last answer; to be called once.
    public func run() async throws -> LoadReport {
        do {
            try await prepare()
            try await target.start()
        } catch {
            await stopParts()
            throw error
        }
        watch.look()
        begin = .now
        lastAnswerAt = begin
        lastProgress = (begin, 0)
        let timer = EventLoop.shared.timer(after: Self.progressInterval, repeating: Self.progressInterval) {
            [weak self] in self?.tellProgress()
        }
        switch plan.pace {
        case .openLoop(let rate): await runOpenLoop(ArrivalSchedule(perSecond: rate))
        case .closedLoop(let clients): await runClosedLoop(clients)
        }
        timer.cancel()
        report.seed = plan.seed
        report.took = lastAnswerAt - begin
        report.attempts = notes.attempts
        report.retries = notes.retries
        report.processes = watch.look()
        report.bought = stock.bought
        if let failure = stock.failure { report.endedEarly = "no more could be bought: \(failure)" }
        tellProgress()
        await stopParts()
        return report
    }

    /// Hands in nothing more; ``run()`` returns when the last answers are there.
    public func stop() {
        guard !isStopping else { return }
        isStopping = true
        report.endedEarly = "stopped"
    }

    private func stopParts() async {
        await stock.stop()
        await target.stop()
        await emulator.stop()
    }

    // MARK: - Pace

    private func runOpenLoop(_ schedule: ArrivalSchedule) async {
        let total = plan.total ?? 0
        await withDiscardingTaskGroup { group in
            while !isStopping, handedIn < total {
                let due = min(schedule.due(after: begin.elapsed), total)
                while handedIn < due, inFlight < plan.inFlightMax, let submission = stock.next() {
                    let scheduled = begin + schedule.time(of: handedIn)
                    account(for: submission)
                    group.addTask { @LoopActor @Sendable in await self.perform(submission, scheduledAt: scheduled) }
                }
                try? await pause(for: .milliseconds(1))
            }
        }
    }

    private func runClosedLoop(_ clients: Int) async {
        let total = plan.total ?? .max
        let length: Duration? = if case .duration(let length) = plan.extent { length } else { nil }
        await withDiscardingTaskGroup { group in
            for _ in 0..<min(clients, total) {
                group.addTask { @LoopActor @Sendable in
                    while !self.isStopping, self.handedIn < total, length.map({ self.begin.elapsed < $0 }) ?? true {
                        guard let submission = self.stock.next() else {
                            // Sold out for the moment; for good, when nothing more can be bought.
                            guard self.plan.total == nil, self.stock.failure == nil else { return }
                            try? await pause(for: .milliseconds(2))
                            continue
                        }
                        self.account(for: submission)
                        await self.perform(submission, scheduledAt: .now)
                    }
                }
            }
        }
    }

    private func account(for submission: Submission) {
        handedIn += 1
        inFlight += 1
        report.handedIn[submission.kind, default: 0] += 1
    }

    private func perform(_ submission: Submission, scheduledAt scheduled: MonotonicInstant) async {
        let answer = await target.deliver(submission, until: .now + plan.patience, notes: notes)
        let now = MonotonicInstant.now
        inFlight -= 1
        lastAnswerAt = now
        report.record(submission, answer, latency: now - scheduled)
        if case .credited = answer, submission.kind != .replay { stock.credited(submission.purchase) }
    }

    // MARK: - Watching

    private func tellProgress() {
        watch.look()
        let finished = handedIn - inFlight
        let now = MonotonicInstant.now
        let seconds = (now - lastProgress.at).inSeconds
        let rate = seconds > 0 ? Double(finished - lastProgress.finished) / seconds : 0
        lastProgress = (now, finished)
        let total = plan.total
        let isDraining = isStopping || total.map { handedIn >= $0 } ?? false
        progress(
            LoadProgress(
                phase: isDraining ? .draining : .running, elapsed: now - begin, done: handedIn, total: total,
                inFlight: inFlight, finished: finished, perSecond: rate, retries: notes.retries.values.reduce(0, +),
                wrongAnswers: report.wrongAnswerCount, p99: report.latency.percentile(99)))
    }

    /// Every receipt in flight over HTTP/1.1 is a connection; the usual limit of 1,024 files is below that.
    private func raiseFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

extension LoadPlan {
    /// How many receipts the run hands in; nil when only time decides.
    var total: Int? {
        switch (extent, pace) {
        case (.count(let count), _): count
        case (.duration(let length), .openLoop(let rate)): ArrivalSchedule(perSecond: rate).count(within: length)
        case (.duration, .closedLoop): nil
        }
    }
}
