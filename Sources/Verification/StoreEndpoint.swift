import Commerce
package import HTTP
import ServiceRuntime

/// The way to the stores: ``HTTPClient/send(_:)``, or what a test answers.
package typealias StoreTransport =
    @LoopActor @Sendable (OutgoingRequest) async throws(HTTPClientError) -> HTTPAnswer

/// One endpoint of one store: sends, measures, counts outcomes by class, and complains at a bounded rate.
///
/// Neither URLs nor bodies are logged or used as labels: they hold tokens and receipts.
@LoopActor
final class StoreEndpoint {
    /// At most one complaint per endpoint and class in this time: a store that is down must not fill the disk.
    private static let complaintInterval: Duration = .seconds(10)

    private static let detailBytesMax = 64

    private let transport: StoreTransport
    private let logger: Logger
    private let latency: Histogram
    private let successes: Counter
    private let outcomes: CounterFamily
    private var quietUntil: [String: MonotonicInstant] = [:]

    init(_ store: Store, _ name: String, transport: @escaping StoreTransport, logger: Logger, metrics: Metrics) {
        self.transport = transport
        self.logger = logger.with(["store": .string(store.rawValue), "endpoint": .string(name)])
        latency = metrics.histogram(
            "teller_store_request_seconds", "Time from sending a request to a store until its whole answer.",
            labels: ["store": store.rawValue, "endpoint": name])
        outcomes = CounterFamily(
            metrics, "teller_store_requests_total", "Requests to stores by what the answer means.", label: "class",
            labels: ["store": store.rawValue, "endpoint": name])
        successes = outcomes.counter("ok")
    }

    /// The store's answer, or nil when there was none; that is counted here, an answer is counted by the caller.
    func send(_ request: OutgoingRequest) async -> HTTPAnswer? {
        let start = MonotonicInstant.now
        do {
            let answer = try await transport(request)
            latency.observe(seconds: start.elapsedSeconds)
            return answer
        } catch {
            latency.observe(seconds: start.elapsedSeconds)
            count("no_answer")
            complain("no_answer", detail: error.name)
            return nil
        }
    }

    /// The wait that an answer asks for, kept between a second and an hour: a proxy's or a clock's mistake must neither
    /// hammer the store nor hold a purchase for a year.
    static func retryAfter(_ answer: HTTPAnswer, now: UnixMilliseconds) -> Duration? {
        guard let asked = answer.header("Retry-After").flatMap({ RetryAfter.parse($0, now: now) }) else { return nil }
        return min(max(asked, .seconds(1)), .seconds(3600))
    }

    /// Counts an answer that was understood and usable.
    func countSuccess() { successes.increment() }

    /// Counts an answer of another class.
    func count(_ label: String) { outcomes.increment(label) }

    /// Counts an answer and, when somebody has to do something about it, says so.
    ///
    /// `detail` is the store's own code or reason, never text that could hold an id.
    func count(_ label: String, status: Int, detail: String = "") {
        count(label)
        switch label {
        case "our_configuration":
            guard mayComplain(label) else { return }
            logger.error(
                "store refuses our credentials, rights or request",
                ["status": .count(status), "detail": .string(Self.printable(detail))])
        case "retry_soon", "retry_after", "unusable":
            complain(label, status: status, detail: detail)
        default: break
        }
    }

    private func complain(_ label: String, status: Int? = nil, detail: String) {
        guard mayComplain(label) else { return }
        var fields: [String: LogValue] = ["class": .string(label), "detail": .string(Self.printable(detail))]
        if let status { fields["status"] = .count(status) }
        logger.warning("store request failed", fields)
    }

    private func mayComplain(_ label: String) -> Bool {
        let now = MonotonicInstant.now
        if let until = quietUntil[label], now < until { return false }
        quietUntil[label] = now + Self.complaintInterval
        return true
    }

    /// A store's code in a log line: short, and of the characters of a code or a path only.
    private static func printable(_ text: String) -> String {
        let kept = text.utf8.prefix(detailBytesMax).filter { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5B, 0x5D, 0x5F: true
            default: false
            }
        }
        return String(decoding: kept, as: UTF8.self)
    }
}

/// Building store URLs out of checked parts.
enum StoreURL {
    /// Percent-encodes everything but RFC 3986's unreserved characters.
    ///
    /// Ids were checked against narrower alphabets before, so this changes nothing today; it is the second lock on the
    /// door through which `../` and `?` would come.
    static func escaped(_ text: String) -> String {
        var text = text
        guard text.withUTF8({ utf8 in !utf8.allSatisfy(isUnreserved) }) else { return text }
        var escaped = ""
        for byte in text.utf8 {
            if isUnreserved(byte) {
                escaped.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                escaped += digits.utf8.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }
        return escaped
    }

    /// A base URL without slashes at its end.
    static func base(_ text: String) -> String {
        var text = Substring(text)
        while text.hasSuffix("/") { text.removeLast() }
        return String(text)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }
}
