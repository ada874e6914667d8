/// A purchase that a store confirmed: the only thing that `Ledger` credits.
///
/// Only `Verification` can make one (`@_spi(Verification)`), so no path leads from a client's claim to a wallet
/// around the check.
public final class VerifiedPurchase: Sendable {
    /// The name under which it can be credited once.
    public let key: PurchaseKey
    /// The store that confirmed it.
    public let store: Store
    /// Real money or not.
    public let environment: StoreEnvironment
    /// The product in the store's words; it decides what is granted.
    public let storeProductID: StoreProductID
    /// The product of the catalogue that `storeProductID` is mapped to.
    public let product: Product
    /// How many were bought at once.
    public let quantity: Int64
    /// What it gives, `quantity` applied.
    public let grants: Grants
    /// Apple's id of the charge.
    public let transactionID: TransactionID?
    /// Apple's id of the first charge of the chain.
    public let originalTransactionID: TransactionID?
    /// Google's id of the charge, when there is one.
    public let orderID: OrderID?
    /// When it was bought: milliseconds since 1970 UTC.
    public let purchasedAtMilliseconds: Int64
    /// Thousandths of `priceCurrency` for the whole quantity, where the store tells.
    ///
    /// Informational, not for accounting.
    public let priceMilliunits: Int64?
    /// ISO 4217 code of the price.
    public let priceCurrency: String?
    /// The store's country: three letters from Apple, two from Google.
    public let storefront: String?
    /// A sandbox or license tester's purchase.
    public let isTest: Bool
    /// Bought with a promo code.
    public let isPromo: Bool
    /// The account token inside the store's data, if the app set one.
    public let accountToken: String?
    /// What the store must still be told once the credit is done.
    public let duty: StoreDuty?

    /// States a fact that a store confirmed.
    @_spi(Verification) public init(
        key: PurchaseKey, store: Store, environment: StoreEnvironment, storeProductID: StoreProductID,
        product: Product, quantity: Int64, grants: Grants, transactionID: TransactionID? = nil,
        originalTransactionID: TransactionID? = nil, orderID: OrderID? = nil, purchasedAtMilliseconds: Int64,
        priceMilliunits: Int64? = nil, priceCurrency: String? = nil, storefront: String? = nil,
        isTest: Bool = false, isPromo: Bool = false, accountToken: String? = nil, duty: StoreDuty? = nil
    ) {
        self.key = key
        self.store = store
        self.environment = environment
        self.storeProductID = storeProductID
        self.product = product
        self.quantity = quantity
        self.grants = grants
        self.transactionID = transactionID
        self.originalTransactionID = originalTransactionID
        self.orderID = orderID
        self.purchasedAtMilliseconds = purchasedAtMilliseconds
        self.priceMilliunits = priceMilliunits
        self.priceCurrency = priceCurrency
        self.storefront = storefront
        self.isTest = isTest
        self.isPromo = isPromo
        self.accountToken = accountToken
        self.duty = duty
    }

    /// How often the product can be bought.
    public var type: ProductType { product.type }

    /// What a client may know the purchase by: Apple's transaction id, Google's order id, or, for a promo purchase
    /// without one, the digest of the purchase key.
    public var displayID: String { transactionID?.rawValue ?? orderID?.rawValue ?? key.digestHex }
}
