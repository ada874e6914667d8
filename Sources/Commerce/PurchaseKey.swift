/// The name under which a purchase can be credited once, for ever, by one player.
///
/// - Apple: `apple:<environment>:<transaction id>`; for a non-consumable the *original* transaction id, because a
///   restore comes with a new transaction id. The environment is part of it: sandbox and production number their
///   transactions independently.
///   Which of the two it is never depends on the catalogue: a product that somebody there calls a consumable today and a
///   non-consumable tomorrow would be credited under both. A signed transaction names its type itself. A legacy receipt
///   does not, but in it the ids differ only for what was restored or renewed, and a consumable is neither; so whatever
///   has two ids goes by the original one, and for all others the two rules give the same key. No released version
///   followed another rule, so there are no marks under other names to look for.
/// - Google: `google:<purchase token>`. Not the order id: promo purchases have none, and several tokens may share one.
///
/// Redis stores only the digest, the first 16 bytes of the text's SHA-256, which keeps a claim near 62 bytes.
/// Two keys are equal when their texts are.
public struct PurchaseKey: Hashable, Sendable, CustomStringConvertible {
    /// The whole key.
    ///
    /// Contains the purchase token for Google, so it is not for logs.
    public let text: String
    /// 16 bytes, the first of the text's SHA-256.
    public let digest: [UInt8]

    /// The length of `digest`.
    public static let digestBytes = 16

    /// Names a purchase of Apple's App Store.
    ///
    /// - Parameters:
    ///   - environment: where the transaction was made.
    ///   - transactionID: the transaction id, or for a non-consumable the original transaction id.
    ///   - sha256: SHA-256 of its argument (this module knows no cryptography).
    /// - Returns: the key.
    public static func apple(
        environment: StoreEnvironment, transactionID: TransactionID, sha256: ([UInt8]) -> [UInt8]
    ) -> PurchaseKey {
        PurchaseKey(text: "apple:\(environment.rawValue):\(transactionID.rawValue)", sha256: sha256)
    }

    /// Names a one-time purchase of Google Play.
    ///
    /// - Parameters:
    ///   - token: the purchase token, which Google calls globally unique.
    ///   - line: the store product of the line, only for a purchase of several lines.
    ///   - sha256: SHA-256 of its argument.
    /// - Returns: the key.
    public static func google(
        token: PurchaseToken, line: StoreProductID? = nil, sha256: ([UInt8]) -> [UInt8]
    ) -> PurchaseKey {
        var text = "google:" + token.rawValue
        if let line { text += ":" + line.rawValue }
        return PurchaseKey(text: text, sha256: sha256)
    }

    private init(text: String, sha256: ([UInt8]) -> [UInt8]) {
        let digest = sha256(Array(text.utf8))
        precondition(digest.count >= Self.digestBytes, "a purchase key digest has at least 16 bytes")
        self.text = text
        self.digest = Array(digest.prefix(Self.digestBytes))
    }

    /// Whether both are the same purchase.
    public static func == (left: PurchaseKey, right: PurchaseKey) -> Bool { left.text == right.text }

    /// Hashes the digest.
    public func hash(into hasher: inout Hasher) { hasher.combine(digest) }

    /// The digest as 32 hex digits; safe to log.
    public var digestHex: String { lowercaseHex(digest) }

    /// The digest; the text would show a purchase token.
    public var description: String { "purchase \(digestHex)" }
}
