import ServiceRuntime

/// The client's counters: requests by outcome, and how long they took.
@LoopActor
struct HTTPClientMetrics {
    private let metrics: Metrics
    private let answers: [Counter]
    private let seconds: Histogram

    init(_ metrics: Metrics) {
        self.metrics = metrics
        answers = (1...5).map { Self.counter(metrics, "\($0)xx") }
        seconds = metrics.histogram(
            "teller_http_client_request_seconds", "Time from sending a request to the end of its answer.")
    }

    private static func counter(_ metrics: Metrics, _ outcome: String) -> Counter {
        metrics.counter(
            "teller_http_client_requests_total", "Requests to other servers by status class or kind of failure.",
            labels: ["outcome": outcome])
    }

    func count(_ outcome: Result<HTTPAnswer, HTTPClientError>, milliseconds: Int64) {
        switch outcome {
        case .success(let answer): answers[min(max(answer.status / 100, 1), 5) - 1].increment()
        case .failure(let error): Self.counter(metrics, error.name).increment()
        }
        seconds.observe(seconds: Double(milliseconds) / 1000)
    }
}
