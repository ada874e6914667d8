import Commerce
import ServiceRuntime

/// What a worker counts.
///
/// Labels are closed sets (queue, outcome): never a player's or purchase's id, never a receipt. Products that the
/// catalogue lacks are an open one, so only the first ``productsMax`` have a series of their own.
@LoopActor
final class WorkerMetrics {
    static let productsMax = 50
    /// In place of the name when no store confirmed a purchase of it: anybody could have made it up.
    static let unconfirmed = "unconfirmed"

    private let metrics: Metrics
    private var awaited: [String: CounterFamily] = [:]
    private let outcomes: [(queue: String, counters: CounterFamily)]
    private let late: CounterFamily
    let settleSeconds: Histogram

    init(_ metrics: Metrics) {
        self.metrics = metrics
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
        for (_, counters) in outcomes { counters.counter(IndeterminateCause.ourConfiguration.rawValue) }
    }

    func countLate(queue: String) { late.increment(queue) }

    /// Called for every attempt on a receipt that waits for this product of the catalogue; nil when only the job names
    /// it.
    func countAwaited(_ product: String?, _ cause: IndeterminateCause) {
        var product = product ?? Self.unconfirmed
        if product != Self.unconfirmed, awaited[product] == nil, awaited.count >= Self.productsMax { product = "other" }
        let counters =
            awaited[product]
            ?? CounterFamily(
                metrics, "teller_receipts_awaiting_product_total",
                "Attempts on receipts that wait for a product which the catalogue lacks, or lists wrongly.",
                label: "cause", labels: ["product": product])
        awaited[product] = counters
        counters.increment(cause.rawValue)
    }

    func count(queue: String, outcome: String) {
        for known in outcomes where known.queue == queue { known.counters.increment(outcome) }
    }
}
