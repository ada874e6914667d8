import Commerce
import ServiceRuntime

/// verifyReceipt's answer, as far as it decides.
///
/// [responseBody](https://developer.apple.com/documentation/appstorereceipts/responsebody). Almost everything is text.
struct AppleReceiptAnswer {
    var status: Int64
    var isRetryable: Bool?
    /// `Sandbox` or `Production`; missing in some old answers.
    var environment: String?
    var bundleID: String?
    var purchases: [AppleReceiptPurchase]

    /// Throws when the answer is not verifyReceipt's at all.
    init(_ json: JSONView) throws(JSONError) {
        guard let status = try json.wireInteger("status") else { throw json.error("has no status") }
        self.status = status
        // The documentation spells it is_retryable, answers have been seen with is-retryable.
        let documented = try json.wireFlag("is_retryable")
        let seen = try json.wireFlag("is-retryable")
        isRetryable = documented ?? seen
        environment = try json.optionalString("environment", maxBytes: 64)
        let receipt = try json.optionalObject("receipt")
        bundleID = try receipt?.optionalString("bundle_id", maxBytes: 256)
        purchases = []
        for entry in try receipt?.optionalElements("in_app") ?? [] { purchases.append(AppleReceiptPurchase(entry)) }
    }
}

/// One purchase of a receipt's `in_app`.
///
/// An entry that cannot be read is kept as such: it must not hide the others.
enum AppleReceiptPurchase {
    case unreadable(productID: StoreProductID?)
    case entry(Entry)

    struct Entry {
        var productID: StoreProductID
        var transactionID: TransactionID
        var originalTransactionID: TransactionID?
        var quantity: Int64
        /// Milliseconds.
        var purchaseDate: Int64
        var isCancelled: Bool
        var isSubscription: Bool
        var inAppOwnershipType: String
        var appAccountToken: String?
    }

    /// The product, where the entry is clear enough to name one.
    var productID: StoreProductID? {
        switch self {
        case .unreadable(let productID): productID
        case .entry(let entry): entry.productID
        }
    }

    init(_ json: JSONView) {
        let productID = json.wireNote("product_id", maxBytes: 256).flatMap(StoreProductID.init(rawValue:))
        guard let productID, let entry = try? Self.entry(json, productID) else {
            self = .unreadable(productID: productID)
            return
        }
        self = .entry(entry)
    }

    private static func entry(_ json: JSONView, _ productID: StoreProductID) throws -> Entry? {
        guard let id = try json.wireIdentifier("transaction_id").flatMap(TransactionID.init(rawValue:)),
            let purchaseDate = try json.wireMilliseconds("purchase_date_ms")
        else { return nil }
        let original = try json.wireIdentifier("original_transaction_id")
        let originalID = original.flatMap(TransactionID.init(rawValue:))
        guard original == nil || originalID != nil else { return nil }
        // Present in any spelling and form means that the money went back.
        let isCancelled = json.hasDate("cancellation_date")
        return Entry(
            productID: productID, transactionID: id, originalTransactionID: originalID,
            quantity: try json.wireInteger("quantity") ?? 1, purchaseDate: purchaseDate, isCancelled: isCancelled,
            isSubscription: json.hasDate("expires_date"),
            inAppOwnershipType: try json.optionalString("in_app_ownership_type", maxBytes: 64) ?? "PURCHASED",
            appAccountToken: try json.optionalString("app_account_token", maxBytes: 256))
    }
}

extension JSONView {
    /// Whether a date is there in any of Apple's three spellings, in whatever form.
    fileprivate func hasDate(_ key: String) -> Bool {
        ["", "_ms", "_pst"].contains { suffix in self[key + suffix].map { !$0.isNull } ?? false }
    }
}

extension AppleTransaction {
    /// The same purchase in the words of a signed transaction, so that one set of rules judges both.
    ///
    /// An old receipt tells auto-renewable subscriptions (they expire), but not consumables from non-consumables. What the
    /// catalogue says is taken for true, but for a restored purchase, which is no consumable whatever the catalogue says: as
    /// one it would be credited with each restore.
    init(
        _ entry: AppleReceiptPurchase.Entry, bundleID: String, environment: String, catalogueType: ProductType?
    ) {
        let isRestored = entry.originalTransactionID.map { $0 != entry.transactionID } ?? false
        transactionID = entry.transactionID
        originalTransactionID = entry.originalTransactionID
        self.bundleID = bundleID
        productID = entry.productID
        if entry.isSubscription {
            type = "Auto-Renewable Subscription"
        } else {
            type = isRestored || catalogueType == .nonConsumable ? "Non-Consumable" : "Consumable"
        }
        self.environment = environment
        purchaseDate = entry.purchaseDate
        quantity = entry.quantity
        inAppOwnershipType = entry.inAppOwnershipType
        appAccountToken = entry.appAccountToken
        revocationDate = entry.isCancelled ? entry.purchaseDate : nil
    }
}
