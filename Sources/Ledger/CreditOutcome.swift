public import Commerce

/// What became of a credit.
public enum CreditOutcome: Sendable, Equatable {
    /// It is in the wallet since now. `position` is its entry's number from 1; `balances` are the new balances of the
    /// currencies it grants.
    case credited(position: Int64, balances: [CurrencyAmount])
    /// It was in the wallet already, and nothing changed.
    ///
    /// `entry` is what was credited then, nil when this version cannot read it; `balances` are the present balances of
    /// the currencies it grants.
    case alreadyCredited(position: Int64, entry: LedgerEntry?, balances: [CurrencyAmount])
    /// A balance would pass `Limits.amountMax`; nothing changed.
    case balanceTooLarge
}
