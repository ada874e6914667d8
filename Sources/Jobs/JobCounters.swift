import ServiceRuntime

/// The module's counters, `teller_jobs_*_total`; without metrics they count nothing.
@LoopActor
final class JobCounters {
    /// By the event's raw value; empty without metrics.
    private let families: [CounterFamily]
    private let leaseSeconds: Histogram?

    enum Event: Int, CaseIterable {
        case enqueued, leased, settled, retried, buried, released, adopted, fenced, reaped, refused
    }

    init(_ metrics: Metrics?) {
        families = Event.allCases.compactMap { event in
            metrics.map {
                CounterFamily($0, "teller_jobs_\(event)_total", Self.help[event] ?? "", label: "queue")
            }
        }
        leaseSeconds = metrics?.histogram(
            "teller_jobs_lease_seconds", "Round trip of a lease call that does not wait for a push.")
    }

    private static let help: [Event: String] = [
        .enqueued: "Jobs pushed to the queue.", .leased: "Jobs leased.", .settled: "Jobs settled.",
        .retried: "Jobs put aside for a retry.", .buried: "Jobs moved to the dead letters.",
        .released: "Jobs given back unfinished.", .adopted: "Leases found again after a lost reply.",
        .fenced: "Transitions refused because the lease was not this worker's any more.",
        .reaped: "Jobs taken from dead workers.", .refused: "Submissions refused because the list is full.",
    ]

    func count(_ event: Event, _ queue: String, by amount: Int = 1) {
        guard amount > 0, !families.isEmpty else { return }
        families[event.rawValue].increment(queue, by: amount)
    }

    func observeLease(seconds: Double) { leaseSeconds?.observe(seconds: seconds) }
}
