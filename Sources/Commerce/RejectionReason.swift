/// Why a receipt is refused for good, as the slug that clients, logs and metrics see.
public enum RejectionReason: String, Sendable, Hashable, CaseIterable {
    /// Not a receipt of any known kind, or the store calls it malformed.
    case malformedReceipt = "malformed-receipt"
    /// The signature, its certificates or its algorithm is not Apple's.
    case invalidSignature = "invalid-signature"
    /// A purchase in another app.
    case wrongApp = "wrong-app"
    /// An environment that is not a store's (Xcode, LocalTesting) or not the configured one.
    case wrongEnvironment = "wrong-environment"
    /// Verified, but sandbox purchases are not credited to this player.
    case sandboxNotAllowed = "sandbox-not-allowed"
    /// The store does not know the purchase.
    case unknownPurchase = "unknown-purchase"
    /// The money went back.
    case refunded
    /// Cancelled before it was paid.
    case cancelled
    /// The request names a product that the store did not sell here.
    case productMismatch = "product-mismatch"
    /// Made for, or already claimed by, somebody else.
    case belongsToAnotherPlayer = "belongs-to-another-player"
    /// Shared by a family member or organisation; grants no currency.
    case familyShared = "family-shared"
    /// A product type that cannot be credited yet.
    case unsupportedProduct = "unsupported-product"
    /// A genuine app receipt in which nothing was bought.
    case noPurchaseInReceipt = "no-purchase-in-receipt"
    /// The purchase or its proof has expired.
    case purchaseExpired = "purchase-expired"
    /// Crediting would pass the largest balance.
    case balanceTooLarge = "balance-too-large"
}
