/// How often a product can be bought, in the words of the catalogue file.
public enum ProductType: String, Sendable, Hashable, CaseIterable {
    /// Bought again and again; each purchase grants its currency.
    case consumable = "iap_consumable"
    /// Owned once and for ever; restores grant nothing new.
    case nonConsumable = "iap_non_consumable"
    /// Renewed per period.
    ///
    /// Known to the catalogue's vocabulary, but not sold yet.
    case subscription = "iap_subscription"
}
