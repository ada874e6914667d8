public import Commerce
public import Jobs
public import Ledger
public import ServiceRuntime
public import Verification

/// The worker: takes receipts from the queue, proves each one with its store, credits it, and tells whoever waits.
///
/// One *lane* per queue keeps a bounded number of receipts in flight, so that an outage of one store fills that store's
/// lane and no other. Lanes lease in batches: every receipt that ended in one turn of the loop makes room, and the next
/// lease takes as many as there is room for. What a receipt goes through is ``ReceiptPipeline``.
///
/// A worker that dies at any point leaves its receipts in `running:<worker>`; the others see the missing heartbeat and
/// take them over, and every step they then repeat is idempotent. A worker that is told to stop takes nothing more,
/// finishes what it holds, and gives back what it could not finish in time.
@LoopActor
public final class ReceiptWorker {
    /// How much a worker does at once, and for how long it tries.
    public struct Configuration: Sendable {
        /// Most jobs in flight for each queue; queues that are not named are not served.
        public var inFlightMax: [WorkQueue: Int]
        /// Most receipts taken by one lease, which bounds the time Redis spends in the script.
        public var leaseMax: Int
        /// When an unfinished receipt is looked at again.
        public var retry: RetrySchedule
        /// How long a receipt that is leased alone may keep the next one waiting: 5 s, a third of a store call.
        ///
        /// It is then put aside like any other whose store did not answer. Its worker has lived, so it is no suspect any
        /// more, and the store has all the time it may take at the next attempt.
        public var aloneMax: Duration = .seconds(5)

        /// 1,000 receipts of each store and 64 store duties at once.
        public init(
            inFlightMax: [WorkQueue: Int] = [.apple: 1000, .google: 1000, .googleDuty: 64],
            leaseMax: Int = 128, retry: RetrySchedule = RetrySchedule()
        ) {
            self.inFlightMax = inFlightMax
            self.leaseMax = leaseMax
            self.retry = retry
        }
    }

    /// What a stop did.
    public struct StopReport: Sendable, Equatable {
        /// Jobs that ended between the request and the report.
        public var finished = 0
        /// Jobs given back to the front of their list, unfinished.
        public var returned = 0
        /// Jobs that could not be given back because Redis was not there.
        ///
        /// Other workers take them over when this one's heartbeat is missed.
        public var left = 0

        /// Nothing done.
        public init() {}
    }

    private let jobs: JobQueue
    private let pipeline: ReceiptPipeline
    private let configuration: Configuration
    private let logger: Logger
    private let lanes: [Lane]
    private var root: Task<Void, Never>?
    private var upkeep: Task<Void, Never>?
    private var isStopping = false
    private var finishedWhileStopping = 0
    private var returnedWhileStopping = 0
    private let ended = Completion<Void>()

    /// Why the worker cannot go on, once it cannot: its Redis was wiped or exchanged.
    public private(set) var failure: (any Error)?
    private let failed: @LoopActor (any Error) -> Void

    /// Makes a worker; ``start()`` sets it to work.
    ///
    /// - Parameters:
    ///   - jobs: The queue, opened under this worker's name.
    ///   - ledger: Where purchases are credited.
    ///   - verifier: Proves receipts with the stores.
    ///   - catalogue: The products on sale.
    ///   - configuration: How much at once.
    ///   - logger: For what became of receipts; never sees one.
    ///   - metrics: For what is counted.
    ///   - failed: Called once when the worker cannot go on; the process should end.
    public init(
        jobs: JobQueue, ledger: Ledger, verifier: PurchaseVerifier, catalogue: Catalogue,
        configuration: Configuration = Configuration(), logger: Logger, metrics: Metrics,
        failed: @escaping @LoopActor (any Error) -> Void = { _ in }
    ) {
        self.jobs = jobs
        self.configuration = configuration
        self.logger = logger
        self.failed = failed
        pipeline = ReceiptPipeline(
            jobs: jobs, ledger: ledger, verifier: verifier, catalogue: catalogue, retry: configuration.retry,
            logger: logger, metrics: metrics)
        lanes = configuration.inFlightMax.sorted { $0.key.rawValue < $1.key.rawValue }.map(Lane.init)
    }

    /// The products on sale; a new catalogue counts from the next receipt on.
    public var catalogue: Catalogue {
        get { pipeline.catalogue }
        set { pipeline.catalogue = newValue }
    }

    /// Jobs held at the moment.
    public var inFlight: Int { lanes.reduce(0) { $0 + $1.leases.count } }

    /// Begins to lease.
    public func start() {
        guard root == nil else { return }
        upkeep = Task { @LoopActor @Sendable in await self.maintain() }
        root = Task { @LoopActor @Sendable in
            await withDiscardingTaskGroup { lanes in
                for lane in self.lanes { lanes.addTask { @LoopActor @Sendable in await self.serve(lane) } }
            }
            self.ended.complete(())
        }
    }

    /// Takes nothing more, lets what is in flight end for up to `deadline`, and gives back the rest.
    ///
    /// An idle worker needs half a second: a wait for work is let end, because it may be leasing at this very moment.
    public func stop(within deadline: Duration) async -> StopReport {
        isStopping = true
        lanes.forEach { $0.stop() }
        if root != nil {
            let timer = EventLoop.shared.timer(after: deadline) { self.ended.complete(()) }
            await ended.wait()
            timer.cancel()
        }
        jobs.stopWaiting()
        let report = await giveBack()
        // A heartbeat after the good-bye would register the name again.
        upkeep?.cancel()
        _ = try? await withDeadline(.seconds(1)) { try await self.jobs.leave() }
        return report
    }

    /// All leases at once: their scripts are joined, and a Redis that is away costs one deadline, not one for each.
    private func giveBack() async -> StopReport {
        let held = lanes.flatMap { Array($0.leases.values) + $0.takeAdopted() }
        var report = StopReport()
        report.finished = finishedWhileStopping
        report.left = held.count
        let tally = StopTally()
        _ = try? await withDeadline(.seconds(2)) {
            await withDiscardingTaskGroup { group in
                for lease in held {
                    group.addTask { @LoopActor @Sendable in
                        do {
                            if try await self.jobs.release(lease) { tally.returned += 1 } else { tally.finished += 1 }
                        } catch {
                            tally.refusal = error
                        }
                    }
                }
            }
        }
        if let error = tally.refusal {
            logger.warning("leases could not be given back", ["error": .string("\(error)")])
        }
        report.returned = returnedWhileStopping + tally.returned
        report.finished += tally.finished
        report.left -= tally.returned + tally.finished
        return report
    }

    // MARK: - Lanes

    private func serve(_ lane: Lane) async {
        await withDiscardingTaskGroup { group in
            while !isStopping {
                await lane.waitForRoomOrAdopted()
                if isStopping { break }
                var leases = lane.takeAdopted()
                if leases.isEmpty { leases = await lease(for: lane) }
                if isStopping {
                    // The last one first: each goes to the front of the list.
                    for lease in leases.reversed() {
                        group.addImmediateTask { @LoopActor @Sendable in await self.giveBackNow(lease, of: lane) }
                    }
                    break
                }
                for lease in leases {
                    lane.began(lease)
                    group.addImmediateTask { @LoopActor @Sendable in
                        await self.process(lease)
                        lane.ended(lease)
                        if self.isStopping { self.finishedWhileStopping += 1 }
                    }
                }
            }
        }
    }

    private func process(_ lease: Lease) async {
        guard lease.isAlone else { return await pipeline.process(lease) }
        _ = try? await withDeadline(configuration.aloneMax) { await self.pipeline.process(lease) }
    }

    /// Leases what there is room for; waits when the last lease took all there was, or when Redis is not there.
    private func lease(for lane: Lane) async -> [Lease] {
        let wanted = min(lane.room, configuration.leaseMax)
        do {
            let leases =
                lane.isDry
                ? try await jobs.leaseNext(queue: lane.queue.rawValue, max: wanted)
                : try await jobs.lease(queue: lane.queue.rawValue, max: wanted)
            lane.isDry = leases.count < wanted
            lane.failures = 0
            return leases
        } catch {
            if isStopping { return [] }
            lane.isDry = false
            lane.failures += 1
            if lane.failures == 1 {
                logger.warning("lease failed", ["queue": .string(lane.queue.rawValue), "error": .string("\(error)")])
            }
            let ceiling = Duration.milliseconds(min(50 << min(lane.failures, 4), 500))
            try? await pause(for: ceiling * Double.random(in: 0..<1))
            return []
        }
    }

    /// Beats the heart and takes over from the dead, until the lanes have ended.
    private func maintain() async {
        do {
            try await jobs.maintain { adopted in
                for lease in adopted { await self.take(adopted: lease) }
            }
        } catch {
            failure = error
            logger.error("worker cannot go on", ["error": .string("\(error)")])
            failed(error)
        }
    }

    private func take(adopted lease: Lease) async {
        guard let lane = lanes.first(where: { $0.queue.rawValue == lease.queue }) else {
            _ = try? await jobs.release(lease)
            return
        }
        if isStopping { await giveBackNow(lease, of: lane) } else { lane.adopt(lease) }
    }

    /// A lease that came while the worker stops need not wait for those that are let end.
    ///
    /// One that cannot be given back stays with the lane, and is counted at the end.
    private func giveBackNow(_ lease: Lease, of lane: Lane) async {
        lane.began(lease)
        guard let wasMine = try? await jobs.release(lease) else { return }
        if wasMine { returnedWhileStopping += 1 }
        lane.ended(lease)
    }
}

/// What became of leases that were to be given back; one that is not this worker's any more has ended meanwhile.
@LoopActor
private final class StopTally {
    var returned = 0
    var finished = 0
    var refusal: (any Error)?
}

/// One queue's share of a worker.
@LoopActor
private final class Lane {
    let queue: WorkQueue
    private let inFlightMax: Int
    private(set) var leases: [ObjectIdentifier: Lease] = [:]
    /// Whether the last lease got less than it asked for: then the next waits for a push, in place of one more script that
    /// finds nothing while the receipts just leased need the server.
    var isDry = false
    var failures = 0
    private var adopted: [Lease] = []
    private var waiting: Completion<Void>?

    init(_ queue: WorkQueue, _ inFlightMax: Int) {
        self.queue = queue
        self.inFlightMax = inFlightMax
    }

    var room: Int { inFlightMax - leases.count }

    func began(_ lease: Lease) { leases[ObjectIdentifier(lease)] = lease }

    func ended(_ lease: Lease) {
        leases[ObjectIdentifier(lease)] = nil
        wake()
    }

    /// Leases that came without having been asked for; they are worked on even when there is no room.
    func adopt(_ lease: Lease) {
        adopted.append(lease)
        wake()
    }

    func takeAdopted() -> [Lease] {
        defer { adopted = [] }
        return adopted
    }

    func stop() { wake() }

    func waitForRoomOrAdopted() async {
        guard room <= 0, adopted.isEmpty else { return }
        let waiting = Completion<Void>()
        self.waiting = waiting
        await waiting.wait()
    }

    /// The lane's loop goes on in this turn, but after everything that became ready with what woke it: so one lease
    /// makes use of all the room that a turn made.
    private func wake() {
        guard let waiting else { return }
        self.waiting = nil
        EventLoop.shared.atTurnEnd { waiting.complete(()) }
    }
}
