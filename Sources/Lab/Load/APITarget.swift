import HTTP
import ServiceRuntime

/// Hands receipts in as a game server does: the same request again, after a pause, until the answer is final.
@LoopActor
final class APITarget: LoadTarget {
    private let urls: [String]
    private let headers: [(String, String)]
    private let requestDeadline: Duration
    private let http: HTTPClient
    private var nextURL = 0

    init(urls: [String], key: String, plan: LoadPlan) {
        self.urls = urls.map { ($0.hasSuffix("/") ? String($0.dropLast()) : $0) + "/shop/purchase" }
        headers = [
            ("Content-Type", "application/json"), ("Authorization", "Bearer \(key)"),
            ("Prefer", "wait=\(plan.waitSeconds)"),
        ]
        requestDeadline = .seconds(plan.waitSeconds + 10)
        var configuration = HTTPClient.Configuration()
        configuration.userAgent = "teller-lab"
        configuration.requestsInFlightMax = plan.inFlightMax
        http = HTTPClient(configuration, logger: .disabled)
    }

    func start() async throws {}

    func stop() async { await http.stop() }

    func deliver(_ submission: Submission, until deadline: MonotonicInstant, notes: DeliveryNotes) async -> FinalAnswer
    {
        let body = submission.body
        var failures = 0
        var wasAccepted = false
        var last = "nothing"
        // Requests go round; one that fails goes to the next front.
        var url = nextURL
        nextURL = (nextURL + 1) % urls.count
        while true {
            let request = OutgoingRequest(
                .post, urls[url], headers: headers, body: body, deadline: requestDeadline, answerBytesMax: 1 << 16)
            notes.attempts += 1
            var delay: Duration
            do throws(HTTPClientError) {
                switch Self.meaning(of: try await http.send(request)) {
                case .final(let answer): return answer
                case .accepted(let after): (wasAccepted, delay, last) = (true, after, "pending")
                case .refusedForNow(let status, let after):
                    failures += 1
                    (delay, last) = (max(after ?? .zero, backoff(afterFailures: failures)), "HTTP \(status)")
                }
            } catch {
                failures += 1
                (delay, last) = (backoff(afterFailures: failures), error.name)
                url = (url + 1) % urls.count
            }
            notes.retry(because: last)
            delay = min(delay, .seconds(5))
            guard MonotonicInstant.now + delay < deadline, (try? await pause(for: delay)) != nil else {
                return .gaveUp(last: last, wasAccepted: wasAccepted)
            }
        }
    }

    enum Meaning: Equatable {
        case final(FinalAnswer)
        /// 202: it is in the queue.
        case accepted(retryAfter: Duration)
        /// Nothing is known to have happened.
        case refusedForNow(status: Int, retryAfter: Duration?)
    }

    /// What an answer means, by the API's documentation.
    nonisolated static func meaning(of answer: HTTPAnswer) -> Meaning {
        let view = try? JSONView.parse(answer.body)
        let status = (try? view?.optionalString("status")) ?? nil
        switch answer.status {
        case 200 where status == "credited":
            return .final(.credited(alreadyProcessed: (try? view?.bool("alreadyProcessed")) ?? false))
        case 202 where status == "awaiting-payment": return .final(.awaitingPayment)
        case 202:
            let after = (try? view?.optionalInt64("retryAfterMs", in: 0...60_000)) ?? nil
            return .accepted(retryAfter: .milliseconds(after ?? 1000))
        default: break
        }
        let reason = (try? view?.optionalString("reason", maxBytes: 64)) ?? nil
        if reason == "parked" { return .final(.parked) }
        guard answer.status == 429 || answer.status >= 500 || answer.status == 408 else {
            return .final(.refused(reason: reason ?? "HTTP \(answer.status)"))
        }
        let after = answer.header("Retry-After").flatMap { RetryAfter.parse($0, now: .now) }
        return .refusedForNow(status: answer.status, retryAfter: after)
    }
}
