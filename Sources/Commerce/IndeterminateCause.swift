/// Why nothing can be said about a receipt yet.
///
/// Never a reason to refuse it.
public enum IndeterminateCause: String, Sendable, Hashable, CaseIterable {
    /// No answer, or one that says to come back.
    case storeUnavailable = "store-unavailable"
    /// The store's quota is used up.
    case storeThrottled = "store-throttled"
    /// Our credentials or settings are refused; needs a human, and the receipt waits.
    case ourConfiguration = "our-configuration"
    /// Not known yet, but young enough to appear.
    case tooNew = "too-new"
    /// A state or type that this version does not know; parked, never credited.
    case unknownState = "unknown-state"
    /// The store sold a product that the catalogue does not list.
    case unknownProduct = "unknown-product"
    /// The catalogue lists the product in a way that cannot be granted: with another type than the store's, or too
    /// much of a currency.
    case misconfiguredProduct = "misconfigured-product"
}
