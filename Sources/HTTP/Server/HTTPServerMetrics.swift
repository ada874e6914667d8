import ServiceRuntime

/// The server's counters: requests by status class, and how long handlers took.
@LoopActor
struct HTTPServerMetrics {
    private let answers: [Counter]
    private let seconds: Histogram

    init(_ metrics: Metrics) {
        answers = (1...5).map {
            metrics.counter(
                "teller_http_requests_total", "Requests that reached a handler, by status class.",
                labels: ["status": "\($0)xx"])
        }
        seconds = metrics.histogram(
            "teller_http_request_seconds", "Time from the end of a request's headers to its answer.")
    }

    func count(_ status: Int, since start: MonotonicInstant) {
        answers[min(max(status / 100, 1), 5) - 1].increment()
        seconds.observe(seconds: (MonotonicInstant.now - start).inSeconds)
    }
}
