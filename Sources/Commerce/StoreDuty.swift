public import ServiceRuntime

/// What a store must be told after the credit: a job of its own, with its own retries.
///
/// Google refunds what was neither consumed nor acknowledged within three days. It comes after the credit because the
/// reverse order can lose a purchase: consumed at the store, and no longer provable, before it is in the wallet.
public struct StoreDuty: Sendable, Hashable, CustomStringConvertible {
    /// What to tell.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Google: consume, which also acknowledges; the player can buy the product again.
        case googleConsume = "google-consume"
        /// Google: acknowledge, for what is owned for ever.
        case googleAcknowledge = "google-acknowledge"
    }

    /// What to tell.
    public let kind: Kind
    /// The app.
    public let package: PackageName
    /// The product, as Google names it.
    public let storeProductID: StoreProductID
    /// The purchase.
    public let token: PurchaseToken

    /// States a duty.
    public init(_ kind: Kind, package: PackageName, storeProductID: StoreProductID, token: PurchaseToken) {
        self.kind = kind
        self.package = package
        self.storeProductID = storeProductID
        self.token = token
    }

    /// Reads what `json` wrote.
    public init(json view: JSONView) throws(JSONError) {
        kind = try view.choice("duty", Kind.self)
        package = try view.identifier("packageName", PackageName.self)
        storeProductID = try view.identifier("storeProductId", StoreProductID.self)
        token = try view.identifier("purchaseToken", PurchaseToken.self)
    }

    /// The duty as the payload of a job.
    public var json: [UInt8] {
        var writer = JSONWriter(capacity: 384)
        writer.object { writer in
            writer.member("duty", kind.rawValue)
            writer.member("packageName", package.rawValue)
            writer.member("storeProductId", storeProductID.rawValue)
            writer.member("purchaseToken", token.rawValue)
        }
        return writer.bytes
    }

    /// Kind and product, without the token.
    public var description: String { "\(kind.rawValue) of \(storeProductID)" }
}
