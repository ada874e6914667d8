import ServiceRuntime

/// How receipts get to Teller, and how one hears what became of them.
@LoopActor
protocol LoadTarget: Sendable {
    func start() async throws
    func stop() async
    /// Hands a receipt in and goes on until there is a final answer or the deadline has passed.
    func deliver(_ submission: Submission, until deadline: MonotonicInstant, notes: DeliveryNotes) async -> FinalAnswer
}

/// What happened between handing in and the final answer, over all receipts of a run.
@LoopActor
final class DeliveryNotes {
    /// Requests or pushes that were made again, by what made it necessary.
    private(set) var retries: [String: Int] = [:]
    /// Requests and pushes sent, first ones and repetitions.
    var attempts = 0

    func retry(because cause: String) { retries[cause, default: 0] += 1 }
}

/// Full jitter between tries that failed: 50 ms doubling to 2 s.
func backoff(afterFailures failures: Int) -> Duration {
    .milliseconds(Double(min(50 << min(failures, 6), 2000)) * Double.random(in: 0..<1))
}
