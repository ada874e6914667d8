import ServiceRuntime

/// What a worker counts.
///
/// Labels are closed sets (queue, outcome): never an id, never a receipt.
@LoopActor
struct WorkerMetrics {
    private let outcomes: [(queue: String, counters: CounterFamily)]
    private let late: CounterFamily
    let settleSeconds: Histogram

    init(_ metrics: Metrics) {
        settleSeconds = metrics.histogram(
            "teller_receipt_seconds", "From the lease of a receipt to its settled result.")
        late = CounterFamily(
            metrics, "teller_receipts_late_total", "Attempts without a result on receipts and duties older than a day.",
            label: "queue")
        outcomes = WorkQueue.allCases.map { queue in
            let counters = CounterFamily(
                metrics, "teller_receipts_total", "Receipts and store duties by how this worker's attempt ended.",
                label: "outcome", labels: ["queue": queue.rawValue])
            return (queue.rawValue, counters)
        }
        // From the start, at 0: an increase is only seen between two samples.
        for queue in WorkQueue.allCases { late.counter(queue.rawValue) }
    }

    func countLate(queue: String) { late.increment(queue) }

    func count(queue: String, outcome: String) {
        for known in outcomes where known.queue == queue { known.counters.increment(outcome) }
    }
}
