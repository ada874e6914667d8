public import Commerce

/// What a player has.
public struct Wallet: Sendable, Equatable {
    /// The balance of each currency of the game, 0 included.
    public let balances: [CurrencyAmount]
    /// What the player owns for ever, sorted; empty when it was not asked for.
    public let entitlements: [EntitlementID]

    /// Makes a wallet.
    public init(balances: [CurrencyAmount], entitlements: [EntitlementID]) {
        self.balances = balances
        self.entitlements = entitlements
    }

    /// The balance of one currency; 0 when there is none.
    public func balance(of currency: CurrencyCode) -> Int64 {
        balances.first { $0.currency == currency }?.amount ?? 0
    }
}
