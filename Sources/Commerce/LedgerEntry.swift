/// One immutable line of a player's ledger: a change of the wallet and everything there is to know about its cause.
///
/// Schema version 1. It is complete from the first day because it is never rewritten: support and refunds, years later,
/// have only this and the store to look at.
public struct LedgerEntry: Sendable, Equatable {
    /// What kind of change it is.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// A purchase was credited.
        case credit
    }

    /// The version of the schema that this type writes.
    public static let schemaVersion: Int64 = 1

    /// What kind of change it is.
    public var kind: Kind
    /// The whole purchase key.
    ///
    /// Contains Google's purchase token: never for clients or logs.
    public var key: String
    /// The store that confirmed it.
    public var store: Store
    /// Real money or not.
    public var environment: StoreEnvironment
    /// Apple's id of the charge.
    public var transactionID: TransactionID?
    /// Apple's id of the first charge of the chain; written only when it is another than `transactionID`.
    public var originalTransactionID: TransactionID?
    /// Google's id of the charge.
    public var orderID: OrderID?
    /// The product of the catalogue.
    public var product: ProductID
    /// The product in the store's words.
    public var storeProductID: StoreProductID
    /// How many were bought at once.
    public var quantity: Int64
    /// What was added to the wallet.
    public var grants: Grants
    /// Thousandths of `priceCurrency`, where the store told.
    public var priceMilliunits: Int64?
    /// ISO 4217 code of the price.
    public var priceCurrency: String?
    /// The store's country.
    public var storefront: String?
    /// A sandbox or license tester's purchase.
    public var isTest: Bool
    /// Bought with a promo code.
    public var isPromo: Bool
    /// When it was bought: milliseconds since 1970 UTC.
    public var purchasedAtMilliseconds: Int64
    /// When Redis added it to the wallet, by Redis's clock: milliseconds since 1970 UTC.
    public var creditedAtMilliseconds: Int64
    /// The product as the catalogue had it at that time; compact JSON.
    public var productSnapshotJSON: String
    /// The submission that led to it.
    public var submission: SubmissionID

    /// The entry of a credit.
    ///
    /// - Parameters:
    ///   - purchase: what the store confirmed.
    ///   - submission: the submission that led to it.
    ///   - creditedAtMilliseconds: when; 0 while Redis has not said so (see `openJSON`).
    public init(crediting purchase: VerifiedPurchase, submission: SubmissionID, creditedAtMilliseconds: Int64 = 0) {
        kind = .credit
        key = purchase.key.text
        store = purchase.store
        environment = purchase.environment
        transactionID = purchase.transactionID
        originalTransactionID = purchase.originalTransactionID ?? purchase.transactionID
        orderID = purchase.orderID
        product = purchase.product.id
        storeProductID = purchase.storeProductID
        quantity = purchase.quantity
        grants = purchase.grants
        priceMilliunits = purchase.priceMilliunits
        priceCurrency = purchase.priceCurrency
        storefront = purchase.storefront
        isTest = purchase.isTest
        isPromo = purchase.isPromo
        purchasedAtMilliseconds = purchase.purchasedAtMilliseconds
        self.creditedAtMilliseconds = creditedAtMilliseconds
        productSnapshotJSON = purchase.product.snapshotJSON
        self.submission = submission
    }

    /// What a client may know the purchase by, as `VerifiedPurchase.displayID`; nil for a promo purchase of Google.
    public var displayID: String? { transactionID?.rawValue ?? orderID?.rawValue }
}
