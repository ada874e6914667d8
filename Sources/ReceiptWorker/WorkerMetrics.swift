import ServiceRuntime

/// What a worker counts.
///
/// Labels are closed sets (queue, outcome): never an id, never a receipt.
@LoopActor
struct WorkerMetrics {
    private let metrics: Metrics
    private var outcomes: [String: Counter] = [:]
    private var late: [String: Counter] = [:]
    let settleSeconds: Histogram

    init(_ metrics: Metrics) {
        self.metrics = metrics
        settleSeconds = metrics.histogram(
            "teller_receipt_seconds", "From the lease of a receipt to its settled result.")
        // From the start, at 0: an increase is only seen between two samples.
        for queue in WorkQueue.allCases {
            late[queue.rawValue] = metrics.counter(
                "teller_receipts_late_total", "Attempts without a result on receipts and duties older than a day.",
                labels: ["queue": queue.rawValue])
        }
    }

    func countLate(queue: String) { late[queue]?.increment() }

    mutating func count(queue: String, outcome: String) {
        let name = queue + "/" + outcome
        if let counter = outcomes[name] { return counter.increment() }
        let counter = metrics.counter(
            "teller_receipts_total", "Receipts and store duties by how this worker's attempt ended.",
            labels: ["queue": queue, "outcome": outcome])
        outcomes[name] = counter
        counter.increment()
    }
}
