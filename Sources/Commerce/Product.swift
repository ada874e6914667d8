/// One entry of the catalogue: what it is called at the stores and what it gives.
public struct Product: Sendable, Equatable {
    /// The game's name of the product, the same for all stores.
    public let id: ProductID
    /// How often it can be bought.
    public let type: ProductType
    /// What each store calls it; at least one.
    public let storeProductIDs: [Store: StoreProductID]
    /// The name that players see.
    public let displayName: String
    /// A line of text for players; may be empty.
    public let summary: String
    /// Gems for one of it; 0 or more.
    public let gemAmount: Int64
    /// Gems on top for one of it; 0 or more.
    public let bonusGemAmount: Int64
    /// A mark such as `best_value`.
    public let badge: String?
    /// Where it stands in the shop; ascending.
    public let position: Int64
    /// Whether the shop shows it.
    ///
    /// Hidden products are still credited: somebody may have paid already.
    public let isVisible: Bool
    /// The product as the catalogue file has it, fields unknown to this version included; compact JSON.
    public let json: String
    /// What a ledger entry keeps of the product as it was when it was credited; compact JSON, built once.
    public let snapshotJSON: String

    /// What `quantity` of it give.
    ///
    /// A consumable gives (`gemAmount` + `bonusGemAmount`) × quantity. A non-consumable gives its entitlement and its
    /// gems once, whatever the quantity says: it can be owned only once.
    public func grants(quantity: Int64) throws(GrantError) -> Grants {
        guard (1...Limits.quantityMax).contains(quantity) else { throw .quantityOutOfRange }
        let (each, overflowed) = gemAmount.addingReportingOverflow(bonusGemAmount)
        guard !overflowed else { throw .amountTooLarge }
        let times: Int64
        let entitlements: [EntitlementID]
        switch type {
        case .consumable: (times, entitlements) = (quantity, [])
        case .nonConsumable: (times, entitlements) = (1, [EntitlementID(owning: id)])
        case .subscription: throw .unsupportedType
        }
        let (gems, tooMany) = each.multipliedReportingOverflow(by: times)
        guard !tooMany, gems <= Limits.amountMax else { throw .amountTooLarge }
        return Grants(currencies: gems > 0 ? [CurrencyAmount(.gems, gems)] : [], entitlements: entitlements)
    }
}
