import Commerce
import ServiceRuntime

/// The fields of Apple's `JWSTransactionDecodedPayload` that decide, as Apple names and types them.
///
/// [JWSTransactionDecodedPayload](https://developer.apple.com/documentation/appstoreserverapi/jwstransactiondecodedpayload).
/// Every field is optional on the wire. Those without which an object is not a transaction are required here, because
/// Apple signs other objects (notifications, renewal infos, app transactions) with the same certificates: one of those
/// in the place of a transaction must fail. Enumerations stay text, since Apple adds values without warning.
struct AppleTransaction: Sendable, Equatable {
    /// Why a signed payload is not read as a transaction.
    enum Problem: Error, Equatable {
        /// Not a transaction at all, or with ids that could not be Apple's.
        case notATransaction
        /// A transaction with a field in a shape this version does not know.
        case unknownShape
    }

    var transactionID: TransactionID
    /// Missing only in objects that are not from the App Store.
    var originalTransactionID: TransactionID?
    var bundleID: String
    var productID: StoreProductID
    /// `Consumable`, `Non-Consumable`, `Auto-Renewable Subscription`, `Non-Renewing Subscription`.
    var type: String
    /// `Production`, `Sandbox`; from elsewhere `Xcode`, `LocalTesting`.
    var environment: String
    /// Milliseconds.
    var purchaseDate: Int64
    /// 1 when absent.
    var quantity: Int64
    /// `PURCHASED`, `FAMILY_SHARED`, `ASSIGNED`.
    var inAppOwnershipType: String
    var appAccountToken: String?
    /// Milliseconds; present when the purchase was refunded or its sharing ended.
    var revocationDate: Int64?
    /// Thousandths of `currency` for the whole quantity.
    var price: Int64?
    var currency: String?
    var storefront: String?

    /// Longest text of an enumeration or id that is looked at.
    private static let fieldBytesMax = 256

    init(_ payload: JSONView) throws(Problem) {
        do {
            guard let transactionID = try payload.wireIdentifier("transactionId"),
                let productID = try payload.optionalString("productId", maxBytes: Self.fieldBytesMax),
                let bundleID = try payload.optionalString("bundleId", maxBytes: Self.fieldBytesMax),
                let type = try payload.optionalString("type", maxBytes: Self.fieldBytesMax),
                let environment = try payload.optionalString("environment", maxBytes: Self.fieldBytesMax),
                let purchaseDate = try payload.wireMilliseconds("purchaseDate")
            else { throw Problem.notATransaction }
            // The id goes into a URL and into a key: its alphabet is checked before anything else happens to it.
            guard let transactionID = TransactionID(rawValue: transactionID),
                let productID = StoreProductID(rawValue: productID)
            else { throw Problem.notATransaction }
            self.transactionID = transactionID
            self.productID = productID
            self.bundleID = bundleID
            self.type = type
            self.environment = environment
            self.purchaseDate = purchaseDate
            if let original = try payload.wireIdentifier("originalTransactionId") {
                guard let original = TransactionID(rawValue: original) else { throw Problem.notATransaction }
                originalTransactionID = original
            }
            quantity = try payload.wireInteger("quantity") ?? 1
            inAppOwnershipType =
                try payload.optionalString("inAppOwnershipType", maxBytes: Self.fieldBytesMax) ?? "PURCHASED"
            appAccountToken = try payload.optionalString("appAccountToken", maxBytes: Self.fieldBytesMax)
            revocationDate = try payload.wireMilliseconds("revocationDate")
        } catch let problem as Problem {
            throw problem
        } catch {
            throw .unknownShape
        }
        // For the record only: a purchase must not wait because its price is written in a new way.
        price = try? payload.wireInteger("price")
        currency = payload.wireNote("currency")
        storefront = payload.wireNote("storefront")
    }
}
