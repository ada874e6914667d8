import HTTP
import ServiceRuntime

/// The endpoints of both stores, as the fault knobs name them.
public enum StoreEndpointName: String, Sendable, CaseIterable {
    /// Get Transaction Info, production.
    case appleTransaction = "apple.production.transaction"
    /// Get Transaction Info, sandbox.
    case appleSandboxTransaction = "apple.sandbox.transaction"
    /// verifyReceipt, production.
    case appleReceipt = "apple.production.receipt"
    /// verifyReceipt, sandbox.
    case appleSandboxReceipt = "apple.sandbox.receipt"
    /// The OAuth token endpoint.
    case googleToken = "google.token"
    /// purchases.products.get.
    case googleGet = "google.get"
    /// purchases.products.consume.
    case googleConsume = "google.consume"
    /// purchases.products.acknowledge.
    case googleAcknowledge = "google.acknowledge"

    /// Whether a pattern means this endpoint: its name, `*`, or a prefix such as `apple` or `apple.sandbox`.
    public func matches(_ pattern: String) -> Bool {
        pattern == "*" || rawValue == pattern || rawValue.hasPrefix(pattern + ".")
    }

    var store: EmulatedStore { rawValue.hasPrefix("apple") ? .apple : .google }
}

/// What goes wrong with a share of the requests to an endpoint.
public struct StoreFault: Sendable, Equatable {
    /// The ways to go wrong.
    public enum Kind: Sendable, Equatable {
        /// This status with the body that the store sends along with it.
        case status(Int)
        /// Apple: this `errorCode`, with the HTTP status it implies.
        case appleError(Int64)
        /// verifyReceipt: HTTP 200 with this status; `is_retryable` for 21100–21199.
        case receiptStatus(Int, isRetryable: Bool)
        /// 429; Apple's Retry-After is the absolute time in milliseconds, Google's is in seconds.
        case throttled(retryAfter: Duration)
        /// Apple's 401: plain text, not JSON.
        case unauthorizedText
        /// A proxy's 502 page in HTML.
        case badGatewayPage
        /// 200 with text that is no JSON.
        case notJSON
        /// The real answer, cut in the middle.
        case truncated
        /// The connection is reset.
        case reset
        /// The connection is closed without an answer.
        case close
        /// No answer, ever.
        case hang
    }

    /// What happens.
    public var kind: Kind
    /// The share of requests, 0...1.
    public var share: Double
    /// How many requests at most; nil for no limit.
    public var count: Int?
    /// Whether the store does its work first, so that only the answer is lost.
    ///
    /// Always so for `truncated`.
    public var happensAfterEffect: Bool

    /// A fault.
    public init(_ kind: Kind, share: Double = 1, count: Int? = nil, happensAfterEffect: Bool = false) {
        self.kind = kind
        self.share = share
        self.count = count
        self.happensAfterEffect = happensAfterEffect
    }
}

/// The knobs of one endpoint.
public struct FaultKnobs: Sendable, Equatable {
    /// Every answer is this late.
    public var latency: Duration
    /// Up to this much later, evenly distributed.
    public var jitter: Duration
    /// What goes wrong; the first that strikes, strikes.
    public var faults: [StoreFault]

    /// Knobs; by default nothing is late and nothing goes wrong.
    public init(latency: Duration = .zero, jitter: Duration = .zero, faults: [StoreFault] = []) {
        self.latency = latency
        self.jitter = jitter
        self.faults = faults
    }
}

/// The knobs of all endpoints and the dice, seeded so that a run can be repeated.
@LoopActor
final class FaultBoard {
    private(set) var knobs: [StoreEndpointName: FaultKnobs] = [:]
    private(set) var requests: [StoreEndpointName: Int] = [:]
    private var dice: Dice

    init(seed: UInt64) { dice = Dice(seed: seed) }

    func set(_ knobs: FaultKnobs, for endpoints: [StoreEndpointName]) {
        for endpoint in endpoints { self.knobs[endpoint] = knobs == FaultKnobs() ? nil : knobs }
    }

    func reset() {
        knobs = [:]
        requests = [:]
    }

    /// Counts a request and decides what becomes of it.
    func rule(_ endpoint: StoreEndpointName) -> (delay: Duration, fault: StoreFault?) {
        requests[endpoint, default: 0] += 1
        guard let knobs = knobs[endpoint] else { return (.zero, nil) }
        var delay = knobs.latency
        if knobs.jitter > .zero { delay += knobs.jitter * Double.random(in: 0..<1, using: &dice) }
        for (index, fault) in knobs.faults.enumerated() where fault.count != 0 {
            guard fault.share >= 1 || Double.random(in: 0..<1, using: &dice) < fault.share else { continue }
            if let count = fault.count { self.knobs[endpoint]?.faults[index].count = count - 1 }
            return (delay, fault)
        }
        return (delay, nil)
    }
}

/// SplitMix64: small, seeded, good enough for choosing which requests fail.
struct Dice: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    /// Seeded by the system; for made-up ids, where a system call for each digit would be felt in a load test.
    static var unpredictable: Dice { Dice(seed: UInt64.random(in: .min ... .max)) }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension StoreFault.Kind {
    /// The answer; `real` is what the store would have said, for faults that spoil it.
    func response(of store: EmulatedStore, now: UnixMilliseconds, real: OutgoingResponse?) -> OutgoingResponse {
        switch self {
        case .status(let status):
            return store == .apple
                ? AppleErrors.response(status: status, now: now) : GoogleErrors.response(status: status)
        case .appleError(let code): return AppleErrors.response(code: code, now: now)
        case .receiptStatus(let status, let isRetryable):
            return .json(200, AppleErrors.receiptStatus(status, isRetryable: isRetryable))
        case .throttled(let delay):
            var response = store == .apple ? AppleErrors.response(code: 4_290_000, now: now) : GoogleErrors.quota
            let value = store == .apple ? (now + delay).value : max(1, delay.inMilliseconds / 1000)
            response.headers.removeAll { $0.0 == "Retry-After" }
            response.headers.append(("Retry-After", String(value)))
            return response
        case .unauthorizedText: return AppleErrors.unauthorized
        case .badGatewayPage:
            return OutgoingResponse(
                status: 502, headers: [("Content-Type", "text/html")],
                body: Array("<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway</body></html>".utf8))
        case .notJSON:
            return OutgoingResponse(
                status: 200, headers: [("Content-Type", "application/json")], body: Array("upstream says hello".utf8))
        case .truncated:
            var response = real ?? .text(200, "truncated")
            response.fault = .truncated(afterBytes: response.body.count / 2)
            return response
        case .reset: return OutgoingResponse.silent(.reset)
        case .close: return OutgoingResponse.silent(.close)
        case .hang: return OutgoingResponse.silent(.hang)
        }
    }
}

extension OutgoingResponse {
    fileprivate static func silent(_ fault: ResponseFault) -> OutgoingResponse {
        var response = OutgoingResponse(status: 500)
        response.fault = fault
        return response
    }
}
