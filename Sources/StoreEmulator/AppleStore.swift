import HTTP
import ServiceRuntime
import Signing

/// The App Store Server API as far as a purchase needs it: one endpoint, its authentication, and the signed transactions
/// on phones.
@LoopActor
final class AppleStore {
    /// Tokens are checked once and remembered; a client that reuses them costs no signature check for each request.
    private static let knownTokensMax = 1000

    private let configuration: StoreEmulator.Configuration
    private let book: PurchaseBook
    private let keys: EmulatorKeys
    private var knownTokens: [String: Int64] = [:]

    init(_ configuration: StoreEmulator.Configuration, book: PurchaseBook, keys: EmulatorKeys) {
        self.configuration = configuration
        self.book = book
        self.keys = keys
    }

    private var now: UnixMilliseconds { configuration.clock.now }

    // MARK: Get Transaction Info

    func transactionInfo(_ request: IncomingRequest, in environment: EmulatedEnvironment) -> OutgoingResponse {
        guard isAuthorised(request.header("Authorization")) else { return AppleErrors.unauthorized }
        let id = request.pathParameters["id"] ?? ""
        guard id.utf8.count <= 32, id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return AppleErrors.response(code: 4_000_006, now: now)
        }
        guard !id.hasPrefix(Self.appTransactionPrefix) else { return AppleErrors.response(code: 4_000_048, now: now) }
        guard let record = book.find(id, in: .apple), record.request.environment == environment,
            (record.request.appID ?? configuration.bundleID) == configuration.bundleID,
            book.read(id, in: .apple) != nil
        else { return AppleErrors.response(code: 4_040_010, now: now) }
        // Signed again on each read, with the date of the read: "signedDate: when the App Store signed this JWS".
        guard let jws = try? keys.chain.sign(payload(record, signedDate: now)) else {
            return AppleErrors.response(code: 5_000_000, now: now)
        }
        var body = JSONWriter(capacity: jws.utf8.count + 64)
        body.object { $0.member("signedTransactionInfo", jws) }
        return .json(200, body.bytes)
    }

    private func isAuthorised(_ header: String?) -> Bool {
        guard let header, header.hasPrefix("Bearer ") else { return false }
        let token = String(header.dropFirst("Bearer ".count))
        if let expiry = knownTokens[token] { return expiry > now.seconds }
        guard JWT.unverifiedKeyID(token) == configuration.appleKeyID,
            let verified = try? JWT.verify(token, key: keys.apple.publicKey),
            (try? verified.claims.string("iss")) == configuration.appleIssuerID,
            (try? verified.claims.string("aud")) == "appstoreconnect-v1",
            (try? verified.claims.string("bid")) == configuration.bundleID,
            let issued = try? verified.claims.int64("iat"), let expiry = try? verified.claims.int64("exp"),
            issued <= now.seconds + 60, expiry > now.seconds, expiry - issued <= 3600
        else { return false }
        if knownTokens.count >= Self.knownTokensMax { knownTokens = [:] }
        knownTokens[token] = expiry
        return true
    }

    // MARK: On the phone

    /// What StoreKit hands to the app: signed once, at the time of the purchase.
    func receipt(_ record: PurchaseRecord) throws -> String {
        let signer = record.request.signer
        let chain = try keys.chain(for: signer)
        let payload = payload(record, signedDate: signer == .expiredWhenSigned ? now : record.purchasedAt)
        switch signer {
        case .changedPayload:
            var changed = record
            changed.refundedAt = nil
            let forged = self.payload(changed, signedDate: record.purchasedAt, quantity: record.request.quantity + 98)
            var segments = try chain.sign(payload).split(separator: ".").map(String.init)
            segments[1] = Base64URL.encode(forged)
            return segments.joined(separator: ".")
        case .none:
            let ders = [chain.leaf.der, chain.intermediate.der, chain.root.der]
            let header = MintedChain.header(x5c: ders, algorithm: "none")
            return Base64URL.encode(header) + "." + Base64URL.encode(payload) + "."
        case .genuine, .expiredLeaf, .expiredWhenSigned, .rogueRoot, .developerCertificate:
            return try chain.sign(payload)
        }
    }

    private static let appTransactionPrefix = "7042"

    /// JWSTransactionDecodedPayload.
    private func payload(
        _ record: PurchaseRecord, signedDate: UnixMilliseconds, quantity: Int? = nil
    ) -> [UInt8] {
        let request = record.request
        var json = JSONWriter(capacity: 1024)
        json.object { json in
            json.member("transactionId", record.id)
            json.member("originalTransactionId", record.originalTransactionID)
            json.member("bundleId", request.appID ?? configuration.bundleID)
            json.member("productId", request.storeProductID)
            json.member("purchaseDate", record.purchasedAt.value)
            json.member("originalPurchaseDate", record.purchasedAt.value)
            json.member("quantity", quantity ?? request.quantity)
            json.member("type", request.type)
            json.member("appAccountToken", request.accountToken)
            json.member("inAppOwnershipType", request.ownership)
            json.member("signedDate", signedDate.value)
            json.member("environment", request.environment.rawValue)
            json.member("transactionReason", "PURCHASE")
            json.member("storefront", request.storefront)
            json.member("storefrontId", "143443")
            if let price = request.priceMilliunits {
                json.member("price", price)
                json.member("currency", request.currency)
            }
            json.member("appTransactionId", Self.appTransactionPrefix + String(record.id.suffix(14)))
            if let refundedAt = record.refundedAt {
                json.member("revocationDate", refundedAt.value)
                json.member("revocationReason", 0)
                json.member("revocationType", "REFUND_FULL")
            }
        }
        return json.bytes
    }
}
