/// What one purchase gives to a player.
public struct Grants: Sendable, Equatable {
    /// Amounts to add to the wallet; at most one per currency, each positive.
    public var currencies: [CurrencyAmount]
    /// Rights the player holds from now on.
    public var entitlements: [EntitlementID]

    /// Makes a grant.
    public init(currencies: [CurrencyAmount] = [], entitlements: [EntitlementID] = []) {
        self.currencies = currencies
        self.entitlements = entitlements
    }

    /// The amount of one currency; 0 when it grants none.
    public func amount(of currency: CurrencyCode) -> Int64 {
        currencies.first { $0.currency == currency }?.amount ?? 0
    }
}
