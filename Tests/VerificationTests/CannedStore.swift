import Commerce
import HTTP
import ServiceRuntime
import Signing
import Testing

@testable import Verification

/// Both stores as a function from request to answer, in place of the network; records what was asked.
@LoopActor
final class CannedStore {
    typealias Respond = @LoopActor @Sendable (OutgoingRequest) async throws(HTTPClientError) -> HTTPAnswer

    private(set) var requests: [OutgoingRequest] = []
    private let respond: Respond

    init(_ respond: @escaping Respond) { self.respond = respond }

    /// Answers requests to the token endpoint with a good token, all others with these in turn, the last for ever.
    convenience init(answers: HTTPAnswer...) {
        var left = answers
        self.init { request in
            if request.url == World.tokenURL { return World.tokenAnswer("made-up") }
            return left.count > 1 ? left.removeFirst() : left[0]
        }
    }

    /// Must not be asked.
    static func silent() -> CannedStore {
        CannedStore { request in
            Issue.record("the store was asked")
            return HTTPAnswer(status: 500, body: [])
        }
    }

    var transport: StoreTransport {
        { request throws(HTTPClientError) in
            self.requests.append(request)
            return try await self.respond(request)
        }
    }

    /// Requests but those for access tokens.
    var purchaseRequests: [OutgoingRequest] { requests.filter { $0.url != World.tokenURL } }

    var tokenRequests: [OutgoingRequest] { requests.filter { $0.url == World.tokenURL } }
}

extension HTTPAnswer {
    static func json(_ status: Int, _ text: String, headers: [(String, String)] = []) -> HTTPAnswer {
        HTTPAnswer(status: status, headers: headers, body: Array(text.utf8))
    }
}

/// One app, one catalogue, one player, keys and a clock.
enum World {
    static let now = UnixMilliseconds(1_793_000_060_000)
    static let tokenURL = "https://oauth2.googleapis.com/token"
    static let bundleID = "com.mygame"
    static let player = "ada"

    static let chain = Result { try MintedChain.make(around: now) }
    static let appleKeyPEM = Result { try ES256Key.generate().pem }
    static let googleKeyPEM = Result { try RS256Key.generate().pem }

    static func catalogue(_ extra: String = "") throws -> Catalogue {
        try Catalogue(json: Array((catalogueJSON.dropLast() + extra + "]").utf8))
    }

    private static let catalogueJSON = """
        [{"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500",\
        "android":"gems_500"},"displayName":"500 crystals","description":"","gemAmount":500,"bonusGemAmount":50,\
        "position":2,"isVisible":true},\
        {"productId":"gems_pack_huge","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.9000",\
        "android":"gems_9000"},"displayName":"9000 crystals","description":"","gemAmount":9000,"bonusGemAmount":0,\
        "position":3,"isVisible":true},\
        {"productId":"doubler","type":"iap_non_consumable","storeProductId":{"ios":"com.mygame.doubler",\
        "android":"doubler"},"displayName":"Doubler","description":"","gemAmount":10,"bonusGemAmount":0,\
        "position":4,"isVisible":true},\
        {"productId":"android_only","type":"iap_consumable","storeProductId":{"android":"gems_7"},\
        "displayName":"7 crystals","description":"","gemAmount":7,"bonusGemAmount":0,"position":5,"isVisible":true}]
        """

    static func apple(_ change: (inout AppleConfiguration) -> Void = { _ in }) throws -> AppleConfiguration {
        var apple = AppleConfiguration(
            bundleIDs: [bundleID],
            key: .init(
                keyID: "EXAMPLEK01", issuerID: "11111111-2222-4333-8444-555555555555",
                privateKeyPEM: Secret(try appleKeyPEM.get())))
        apple.environments = [.production, .sandbox]
        apple.rootFingerprints = [try chain.get().root.fingerprint]
        change(&apple)
        return apple
    }

    static func google(_ change: (inout GoogleConfiguration) -> Void = { _ in }) throws -> GoogleConfiguration {
        let account = GoogleConfiguration.ServiceAccount(
            clientEmail: "billing@example.iam.gserviceaccount.com",
            privateKeyPEM: Secret(try googleKeyPEM.get()), privateKeyID: "00aa11bb22cc")
        let package = try PackageName(validating: bundleID)
        var google = GoogleConfiguration(packageNames: [package], credentials: .serviceAccount(account))
        change(&google)
        return google
    }

    static func configuration(
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) throws -> VerificationConfiguration {
        var configuration = VerificationConfiguration(apple: try apple(), google: try google())
        try change(&configuration)
        return configuration
    }

    @LoopActor
    static func verifier(
        _ store: CannedStore, clock: WallClock = WallClock { World.now }, metrics: Metrics = Metrics(),
        _ change: (inout VerificationConfiguration) throws -> Void = { _ in }
    ) throws -> PurchaseVerifier {
        try PurchaseVerifier(
            try configuration(change), transport: store.transport, logger: .disabled, metrics: metrics, clock: clock)
    }

    static func submission(
        _ receipt: String, store: Store? = nil, product: String? = "gems_pack_medium", accountToken: String? = nil
    ) throws -> ReceiptSubmission {
        let inferred = try Receipt.infer(receipt, store: store)
        return ReceiptSubmission(
            player: try PlayerID(validating: player), product: try product.map { try ProductID(validating: $0) },
            receipt: inferred.receipt, storeProductHint: inferred.storeProductID, accountToken: accountToken)
    }

    static func tokenAnswer(_ token: String, expiresIn: String = "3599") -> HTTPAnswer {
        .json(200, #"{"access_token":"\#(token)","expires_in":\#(expiresIn),"token_type":"Bearer"}"#)
    }

    /// The account token an app makes for the player by default.
    static func accountToken(of player: String = player) -> String {
        UUIDv5.make(namespace: AccountBinding.namespace, name: player)
    }
}

/// A signed transaction's payload; `fields` are put in or, with nil, taken out.
struct Payload {
    private var fields: [(String, String)] = [
        ("transactionId", "\"2000001234500777\""), ("originalTransactionId", "\"2000001234500777\""),
        ("bundleId", "\"com.mygame\""), ("productId", "\"com.mygame.gems.500\""), ("purchaseDate", "1793000000000"),
        ("originalPurchaseDate", "1793000000000"), ("quantity", "1"), ("type", "\"Consumable\""),
        ("inAppOwnershipType", "\"PURCHASED\""), ("signedDate", "1793000001250"),
        ("environment", "\"Production\""), ("transactionReason", "\"PURCHASE\""), ("storefront", "\"DEU\""),
        ("price", "9980"), ("currency", "\"EUR\""),
    ]

    init(_ changes: [String: String?] = [:]) {
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) {
            fields.removeAll { $0.0 == key }
            if let value { fields.append((key, value)) }
        }
    }

    var json: String { "{" + fields.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}" }

    func signed() throws -> String { try World.chain.get().sign(Array(json.utf8)) }

    /// Get Transaction Info's answer with this payload.
    func answer() throws -> HTTPAnswer { .json(200, #"{"signedTransactionInfo":"\#(try signed())"}"#) }
}

/// Google's answer about a purchase; `fields` are put in or, with nil, taken out.
struct PlayPurchase {
    static let token = "aaaabbbbccccddddeeeeffff.AO-J1Omadeup"

    private var fields: [(String, String)] = [
        ("kind", "\"androidpublisher#productPurchase\""), ("purchaseTimeMillis", "\"1793000000000\""),
        ("purchaseState", "0"), ("consumptionState", "0"), ("acknowledgementState", "0"),
        ("orderId", "\"GPA.3300-1111-2222-33333\""), ("regionCode", "\"DE\""),
    ]

    init(_ changes: [String: String?] = [:]) {
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) {
            fields.removeAll { $0.0 == key }
            if let value { fields.append((key, value)) }
        }
    }

    var answer: HTTPAnswer { .json(200, "{" + fields.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}") }

    static func error(_ status: Int, _ reason: String, message: String = "…", headers: [(String, String)] = [])
        -> HTTPAnswer
    {
        .json(
            status,
            """
            {"error":{"code":\(status),"message":"\(message)","errors":[{"message":"\(message)","domain":"global",\
            "reason":"\(reason)"}]}}
            """, headers: headers)
    }
}

extension Verdict {
    /// The verdict in a few words, so that tables of expectations read as tables.
    var summary: String {
        switch self {
        case .verified(let purchase): "verified " + purchase.summary
        case .several(let claimed, let others):
            claimed.map(\.summary).joined(separator: "; ") + others.map { " | " + $0.summary }.joined()
        case .rejected(let reason, _, _): "rejected \(reason.rawValue)"
        case .awaitingPayment: "awaiting payment"
        case .indeterminate(_, let cause, _, _, _): "open \(cause.rawValue)"
        }
    }

    var purchases: [VerifiedPurchase] {
        switch self {
        case .verified(let purchase): [purchase]
        case .several(let claimed, let others): (claimed + others).flatMap(\.purchases)
        case .rejected, .awaitingPayment, .indeterminate: []
        }
    }

    /// What the store waits for, whether this credits the purchase or finds it credited before.
    var duty: StoreDuty? {
        switch self {
        case .verified(let purchase): purchase.duty
        case .rejected(_, _, let duty), .indeterminate(_, _, _, _, let duty): duty
        case .awaitingPayment, .several: nil
        }
    }

    var retryAfter: Duration? {
        if case .indeterminate(let delay, _, _, _, _) = self { delay } else { nil }
    }

    /// What a human has to look for in the catalogue.
    var awaitedProduct: String? {
        if case .indeterminate(_, _, let product, _, _) = self { product } else { nil }
    }
}

/// The delays between all looks until a final "no", of a receipt that seems to be days old.
@LoopActor
func patience(_ look: @LoopActor (VerificationAttempt) async throws -> Verdict) async throws -> Duration {
    var delays = Duration.zero
    for number in 1...100 {
        let verdict = try await look(VerificationAttempt(number: number, age: .seconds(99_999)))
        if case .rejected = verdict { return delays }
        delays += verdict.retryAfter ?? .zero
    }
    Issue.record("never refused")
    return delays
}

extension VerifiedPurchase {
    var summary: String {
        "\(quantity) × \(product.id.rawValue): \(grants.amount(of: .gems)) gems"
            + grants.entitlements.map { " + \($0.rawValue)" }.joined()
    }
}
