import ServiceRuntime

/// The module's counters, `teller_jobs_*_total`; without metrics they count nothing.
@LoopActor
final class JobCounters {
    private let metrics: Metrics?
    private var counters: [Event: [String: Counter]] = [:]
    private let leaseSeconds: Histogram?

    enum Event: String {
        case enqueued, leased, settled, retried, buried, released, adopted, fenced, reaped, refused
    }

    init(_ metrics: Metrics?) {
        self.metrics = metrics
        leaseSeconds = metrics?.histogram("teller_jobs_lease_seconds", "Round trip of a lease call.")
    }

    private static let help: [Event: String] = [
        .enqueued: "Jobs pushed to the queue.", .leased: "Jobs leased.", .settled: "Jobs settled.",
        .retried: "Jobs put aside for a retry.", .buried: "Jobs moved to the dead letters.",
        .released: "Jobs given back unfinished.", .adopted: "Leases found again after a lost reply.",
        .fenced: "Transitions refused because the lease was not this worker's any more.",
        .reaped: "Jobs taken from dead workers.", .refused: "Submissions refused because the list is full.",
    ]

    func count(_ event: Event, _ queue: String, by amount: Int = 1) {
        guard let metrics, amount > 0 else { return }
        if let counter = counters[event]?[queue] { return counter.increment(by: amount) }
        let counter = metrics.counter(
            "teller_jobs_\(event.rawValue)_total", Self.help[event] ?? "", labels: ["queue": queue])
        counters[event, default: [:]][queue] = counter
        counter.increment(by: amount)
    }

    func observeLease(seconds: Double) { leaseSeconds?.observe(seconds: seconds) }
}
