public import Jobs
public import ServiceRuntime

/// How full the queues are and how old their oldest receipts, as metrics: what an alert looks at.
///
/// `teller_queue_pending{queue}`, `teller_queue_oldest_seconds{queue}` and `teller_dead_letters`. Every API process
/// exports the same numbers, so rules take the `max`. They are of everybody's interest and cost Redis a few commands, so
/// they are looked up at intervals and not when somebody scrapes. A number that is not known, because Redis is away, is
/// NaN, which rings no bell by itself. A job that another program pushed carries no time: its age counts from the look that
/// found it to be the oldest, and is therefore too small, but it grows when nobody takes it.
@LoopActor
public final class QueueGauges {
    private let jobs: JobQueue
    private let logger: Logger
    private let pending: [String: Gauge]
    private let oldest: [String: Gauge]
    private let dead: Gauge
    private var bare: [String: (job: Int, since: MonotonicInstant)] = [:]
    private var polling: Task<Void, Never>?

    /// Makes the gauges, at NaN; ``start(every:)`` begins to look.
    public init(_ jobs: JobQueue, metrics: Metrics, logger: Logger) {
        self.jobs = jobs
        self.logger = logger
        func gauges(_ name: String, _ help: String) -> [String: Gauge] {
            let pairs = StatusReport.queueNames.map { ($0, metrics.gauge(name, help, labels: ["queue": $0])) }
            return Dictionary(uniqueKeysWithValues: pairs)
        }
        pending = gauges("teller_queue_pending", "Jobs on the list that no worker has taken.")
        oldest = gauges(
            "teller_queue_oldest_seconds", "Age of the oldest of them; of a bare job, the time it has been the oldest.")
        dead = metrics.gauge("teller_dead_letters", "Jobs that wait for a human.")
        forget()
    }

    /// What is wrong with the Redis that was looked at last, however quiet its queues are.
    public var trouble: String? {
        jobs.isForeignRedis ? "not the Redis this process was started for: wiped, restored, or another one" : nil
    }

    /// Looks now and then every `interval`, until ``stop()``.
    public func start(every interval: Duration = .seconds(5)) {
        guard polling == nil else { return }
        polling = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            while !Task.isCancelled {
                await self.look()
                do {
                    try await pause(for: interval)
                } catch {
                    return
                }
            }
        }
    }

    /// Looks no more; the numbers become NaN.
    public func stop() {
        polling?.cancel()
        polling = nil
        forget()
    }

    private func look() async {
        do {
            for name in StatusReport.queueNames {
                let depth = try await jobs.depth(of: name)
                let waiting = depth.pending + depth.arrived
                pending[name]?.set(Double(waiting))
                let ages = [depth.oldestPending, depth.oldestArrived, waited(name, depth.oldestBare)]
                oldest[name]?.set(max(0, ages.compactMap { $0?.inSeconds }.max() ?? 0))
            }
            dead.set(Double(try await jobs.deadCount()))
        } catch {
            // An old number would look like a quiet queue.
            forget()
            logger.debug("queue depths unknown", ["error": .string("\(error)")])
        }
    }

    /// For how long the same bare job has been the oldest.
    private func waited(_ queue: String, _ job: Int?) -> Duration? {
        guard let job else {
            bare[queue] = nil
            return nil
        }
        if let known = bare[queue], known.job == job { return known.since.elapsed }
        bare[queue] = (job, .now)
        return .zero
    }

    private func forget() {
        bare = [:]
        for gauge in [Gauge](pending.values) + [Gauge](oldest.values) + [dead] { gauge.set(.nan) }
    }
}
