/// An amount of one currency, in whole units.
public struct CurrencyAmount: Sendable, Equatable {
    /// The currency.
    public var currency: CurrencyCode
    /// Whole units; within ±`Limits.amountMax`.
    public var amount: Int64

    /// Makes an amount.
    public init(_ currency: CurrencyCode, _ amount: Int64) {
        self.currency = currency
        self.amount = amount
    }
}
