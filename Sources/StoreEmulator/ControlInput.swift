import ServiceRuntime

/// Reads what the control API is given.
///
/// Unknown members are refused: a misspelt knob must not look like a quiet run.
enum ControlInput {
    private static let purchaseKeys: Set<String> = [
        "store", "player", "productId", "type", "quantity", "accountToken", "environment", "isTest", "isPromo", "state",
        "appId", "ownership", "signer", "originalTransactionId", "unknownReads", "purchasedAt", "priceMilliunits",
        "currency", "storefront",
    ]
    private static let knobKeys: Set<String> = ["store", "endpoint", "latencyMs", "jitterMs", "faults"]
    private static let faultKeys: Set<String> = [
        "kind", "status", "code", "retryable", "retryAfterMs", "share", "count", "afterEffect",
    ]

    static func purchase(_ view: JSONView) throws(JSONError) -> PurchaseRequest {
        try refuseUnknown(view, besides: purchaseKeys)
        var request = PurchaseRequest(
            store: try choice(view, "store"), player: try view.string("player", maxBytes: 128),
            storeProductID: try view.string("productId", maxBytes: 128))
        if let type = try view.optionalString("type") { request.type = type }
        if let quantity = try view.optionalInt64("quantity", in: 1...1_000_000) { request.quantity = Int(quantity) }
        request.accountToken = try view.optionalString("accountToken", maxBytes: 128)
        if let value: EmulatedEnvironment = try optionalChoice(view, "environment") { request.environment = value }
        if let isTest = try view.optionalBool("isTest") { request.isTest = isTest }
        if let isPromo = try view.optionalBool("isPromo") { request.isPromo = isPromo }
        if let state: PurchaseState = try optionalChoice(view, "state") { request.state = state }
        request.appID = try view.optionalString("appId", maxBytes: 256)
        if let ownership = try view.optionalString("ownership") { request.ownership = ownership }
        if let signer: ReceiptSigner = try optionalChoice(view, "signer") { request.signer = signer }
        request.originalTransactionID = try view.optionalString("originalTransactionId", maxBytes: 32)
        if let reads = try view.optionalInt64("unknownReads", in: 0...1_000_000) { request.unknownReads = Int(reads) }
        request.purchasedAt = try view.optionalInt64("purchasedAt").map { UnixMilliseconds($0) }
        if let price = try view.optionalInt64("priceMilliunits") { request.priceMilliunits = price }
        if let currency = try view.optionalString("currency") { request.currency = currency }
        if let storefront = try view.optionalString("storefront") { request.storefront = storefront }
        return request
    }

    /// A single fault may stand beside the latency, without a list: `{"store": "google", "status": 503}`.
    static func knobs(_ view: JSONView) throws(JSONError) -> (pattern: String, knobs: FaultKnobs) {
        try refuseUnknown(view, besides: knobKeys.union(faultKeys))
        let pattern: String
        if let endpoint = try view.optionalString("endpoint") {
            pattern = endpoint
        } else {
            pattern = try view.optionalString("store") ?? "*"
        }
        let milliseconds: ClosedRange<Int64> = 0...3_600_000
        var knobs = FaultKnobs(
            latency: .milliseconds(try view.optionalInt64("latencyMs", in: milliseconds) ?? 0),
            jitter: .milliseconds(try view.optionalInt64("jitterMs", in: milliseconds) ?? 0))
        if view["kind"] != nil || view["status"] != nil { knobs.faults.append(try fault(view)) }
        for element in try view.optionalElements("faults") ?? [] {
            try refuseUnknown(element, besides: faultKeys)
            knobs.faults.append(try fault(element))
        }
        return (pattern, knobs)
    }

    private static func fault(_ view: JSONView) throws(JSONError) -> StoreFault {
        let share = try view.optionalDouble("share") ?? 1
        guard (0...1).contains(share) else { throw view.error("has a share that is not between 0 and 1") }
        return StoreFault(
            try kind(view), share: share, count: try view.optionalInt64("count", in: 0...1_000_000_000).map { Int($0) },
            happensAfterEffect: try view.optionalBool("afterEffect") ?? false)
    }

    private static func kind(_ view: JSONView) throws(JSONError) -> StoreFault.Kind {
        switch try view.optionalString("kind") ?? "status" {
        case "status": return .status(Int(try view.int64("status", in: 200...599)))
        case "apple-error": return .appleError(try view.int64("code", in: 4_000_000...5_999_999))
        case "receipt-status":
            return .receiptStatus(
                Int(try view.int64("code", in: 0...99_999)), isRetryable: try view.optionalBool("retryable") ?? true)
        case "throttled":
            return .throttled(
                retryAfter: .milliseconds(try view.optionalInt64("retryAfterMs", in: 0...86_400_000) ?? 1000))
        case "unauthorized-text": return .unauthorizedText
        case "bad-gateway-page": return .badGatewayPage
        case "not-json": return .notJSON
        case "truncated": return .truncated
        case "reset": return .reset
        case "close": return .close
        case "hang": return .hang
        default: throw view.error("names an unknown kind of fault")
        }
    }

    static func choice<Choice: RawRepresentable<String>>(
        _ view: JSONView, _ key: String
    ) throws(JSONError) -> Choice {
        let member = try view.required(key)
        guard let choice = Choice(rawValue: try member.string(maxBytes: 64)) else {
            throw member.error("is not one of the known values")
        }
        return choice
    }

    private static func optionalChoice<Choice: RawRepresentable<String>>(
        _ view: JSONView, _ key: String
    ) throws(JSONError) -> Choice? {
        try view.optional(key) == nil ? nil : try choice(view, key)
    }

    static func number(_ text: String?, default fallback: Int, in range: ClosedRange<Int>) throws(JSONError) -> Int {
        guard let text else { return fallback }
        guard let number = Int(text), range.contains(number) else {
            throw JSONError(reason: "the query holds a number that is out of range")
        }
        return number
    }

    private static func refuseUnknown(_ view: JSONView, besides known: Set<String>) throws(JSONError) {
        try view.object()
        guard let unknown = view.unknownKeys(besides: known).first else { return }
        throw view.error("has a member that is not known: \(unknown)")
    }
}
