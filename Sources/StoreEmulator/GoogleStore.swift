import HTTP
import ServiceRuntime
import Signing

/// Google's token endpoint and purchases.products.{get, consume, acknowledge}.
@LoopActor
final class GoogleStore {
    private static let accessTokensMax = 10_000
    private static let scope = "https://www.googleapis.com/auth/androidpublisher"
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let realTokenURL = "https://oauth2.googleapis.com/token"

    private let configuration: StoreEmulator.Configuration
    private let book: PurchaseBook
    private let keys: EmulatorKeys
    /// Access token → end of its life, UNIX seconds.
    private var accessTokens: [String: Int64] = [:]
    private var dice = Dice.unpredictable
    /// What the assertion's `aud` must be; known once the port is.
    var tokenURL = realTokenURL

    init(_ configuration: StoreEmulator.Configuration, book: PurchaseBook, keys: EmulatorKeys) {
        self.configuration = configuration
        self.book = book
        self.keys = keys
    }

    private var now: UnixMilliseconds { configuration.clock.now }

    /// Ends every access token, as a revoked key would.
    func forgetAccessTokens() { accessTokens = [:] }

    // MARK: OAuth

    func token(_ request: IncomingRequest) -> OutgoingResponse {
        guard let form = Form.parse(request.body), let assertion = form["assertion"] else {
            return GoogleErrors.oauth("invalid_request", "Missing required parameter: assertion")
        }
        guard form["grant_type"] == Self.grantType else {
            return GoogleErrors.oauth("unsupported_grant_type", "Invalid grant_type: \(form["grant_type"] ?? "")")
        }
        guard let verified = try? JWT.verify(assertion, key: keys.google.publicKey) else {
            return GoogleErrors.oauth("invalid_grant", "Invalid JWT Signature.")
        }
        let claims = verified.claims
        guard (try? claims.string("iss")) == configuration.googleAccount else {
            return GoogleErrors.oauth("invalid_grant", "Invalid grant: account not found")
        }
        guard let audience = try? claims.string("aud"), audience == tokenURL || audience == Self.realTokenURL else {
            return GoogleErrors.oauth("invalid_grant", "Invalid JWT: Failed audience check.")
        }
        guard let issued = try? claims.int64("iat"), let expiry = try? claims.int64("exp"),
            expiry > now.seconds, issued <= now.seconds + 300, expiry > issued, expiry - issued <= 3600
        else {
            return GoogleErrors.oauth(
                "invalid_grant",
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
                    + "Check your iat and exp values in the JWT claim.")
        }
        guard let scopes = try? claims.string("scope"), scopes.split(separator: " ").contains(Substring(Self.scope))
        else {
            return GoogleErrors.oauth("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        }
        return .json(200, grant())
    }

    private func grant() -> [UInt8] {
        let token = "ya29." + GoogleText.random(120, from: GoogleText.base64url, using: &dice)
        let seconds = configuration.accessTokenLifetime.inMilliseconds / 1000
        if accessTokens.count >= Self.accessTokensMax { accessTokens = accessTokens.filter { $0.value > now.seconds } }
        accessTokens[token] = now.seconds + seconds
        var json = JSONWriter()
        json.object { json in
            json.member("access_token", token)
            json.member("expires_in", max(0, seconds - 1))
            json.member("token_type", "Bearer")
        }
        return json.bytes
    }

    private func isAuthorised(_ request: IncomingRequest) -> Bool {
        guard let header = request.header("Authorization"), header.hasPrefix("Bearer ") else { return false }
        let token = String(header.dropFirst("Bearer ".count))
        if token == configuration.googleStaticAccessToken { return true }
        return accessTokens[token].map { $0 > now.seconds } ?? false
    }

    // MARK: purchases.products

    func get(_ request: IncomingRequest) -> OutgoingResponse {
        switch locate(request, token: request.pathParameters["token"] ?? "", counts: true) {
        case .failure(let refusal): return refusal.response
        case .success(let record): return .json(200, Self.productPurchase(record))
        }
    }

    /// "consume also acknowledges"; a second time the purchase is no longer the user's.
    func consume(_ request: IncomingRequest, token: String) -> OutgoingResponse {
        switch locate(request, token: token, counts: false) {
        case .failure(let refusal): return refusal.response
        case .success(let record):
            guard record.state == .purchased, !record.isConsumed else { return GoogleErrors.notOwned }
            book.update(record.id) {
                $0.isConsumed = true
                $0.isAcknowledged = true
            }
            return OutgoingResponse(status: 204)
        }
    }

    func acknowledge(_ request: IncomingRequest, token: String) -> OutgoingResponse {
        switch locate(request, token: token, counts: false) {
        case .failure(let refusal): return refusal.response
        case .success(let record):
            guard record.state == .purchased else {
                return record.state == .pending ? GoogleErrors.invalid : GoogleErrors.notOwned
            }
            book.update(record.id) { $0.isAcknowledged = true }
            // The other method answers 204; both are documented only as "empty", so a client must take either.
            return OutgoingResponse(status: 200)
        }
    }

    private struct Refusal: Error {
        let response: OutgoingResponse
        init(_ response: OutgoingResponse) { self.response = response }
    }

    private func locate(
        _ request: IncomingRequest, token: String, counts: Bool
    ) -> Result<PurchaseRecord, Refusal> {
        guard isAuthorised(request) else { return .failure(Refusal(GoogleErrors.unauthenticated)) }
        let package = request.pathParameters["package"] ?? ""
        guard package == configuration.packageName || configuration.otherPackages.contains(package) else {
            return .failure(Refusal(GoogleErrors.applicationNotFound))
        }
        guard GoogleText.isPlausible(token) else { return .failure(Refusal(GoogleErrors.invalid)) }
        guard let record = counts ? book.read(token, in: .google) : book.find(token, in: .google) else {
            return .failure(Refusal(GoogleErrors.tokenNotFound))
        }
        guard (record.request.appID ?? configuration.packageName) == package else {
            return .failure(Refusal(GoogleErrors.otherPackage))
        }
        guard record.request.storeProductID == request.pathParameters["product"] else {
            return .failure(Refusal(GoogleErrors.otherProduct))
        }
        return .success(record)
    }

    /// ProductPurchase, version 1: int64 as text, zeros present.
    static func productPurchase(_ record: PurchaseRecord) -> [UInt8] {
        let request = record.request
        var json = JSONWriter(capacity: 512)
        json.object { json in
            json.member("kind", "androidpublisher#productPurchase")
            json.member("purchaseTimeMillis", String(record.purchasedAt.value))
            json.member("purchaseState", record.state.googleCode)
            json.member("consumptionState", record.isConsumed ? 1 : 0)
            json.member("acknowledgementState", record.isAcknowledged ? 1 : 0)
            if request.isTest {
                json.member("purchaseType", 0)
            } else if request.isPromo {
                json.member("purchaseType", 1)
            }
            json.member("orderId", record.orderID)
            if request.quantity > 1 {
                json.member("quantity", request.quantity)
                json.member("refundableQuantity", record.state == .refunded ? 0 : request.quantity)
            }
            json.member("obfuscatedExternalAccountId", request.accountToken)
            json.member("regionCode", String(request.storefront.prefix(2)))
        }
        return json.bytes
    }
}

extension PurchaseState {
    /// "0 purchased, 1 canceled, 2 pending"; a refund shows as canceled.
    var googleCode: Int {
        switch self {
        case .purchased: 0
        case .cancelled, .refunded: 1
        case .pending: 2
        }
    }
}

/// The made-up parts of Google's answers.
enum GoogleText {
    static let base64url = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    private static let letters = Array("abcdefghijklmnopqrstuvwxyz".utf8)
    private static let digits = Array("0123456789".utf8)

    /// 24 lower-case letters, ".AO-J1" and a long tail.
    static func purchaseToken(using dice: inout Dice) -> String {
        random(24, from: letters, using: &dice) + ".AO-J1" + random(96, from: base64url, using: &dice)
    }

    static func orderID(using dice: inout Dice) -> String {
        let groups = [4, 4, 4, 5].map { random($0, from: digits, using: &dice) }
        return "GPA." + groups.joined(separator: "-")
    }

    static func random(_ count: Int, from alphabet: [UInt8], using dice: inout Dice) -> String {
        String(
            decoding: (0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &dice)] },
            as: UTF8.self)
    }

    /// Whether it looks like a token at all; what does not is "Invalid Value".
    static func isPlausible(_ token: String) -> Bool {
        (20...2048).contains(token.utf8.count)
            && token.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}

/// `application/x-www-form-urlencoded`.
enum Form {
    static func parse(_ body: [UInt8]) -> [String: String]? {
        var values: [String: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = decode(parts[0]), let value = decode(parts[1]),
                values.updateValue(value, forKey: name) == nil
            else { return nil }
        }
        return values
    }

    private static func decode(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        var index = text.startIndex
        while index < text.endIndex {
            switch text[index] {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard index + 2 < text.endIndex,
                    let byte = Digest.bytes(hex: String(decoding: text[(index + 1)...(index + 2)], as: UTF8.self))
                else { return nil }
                bytes += byte
                index += 2
            case let byte: bytes.append(byte)
            }
            index += 1
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
