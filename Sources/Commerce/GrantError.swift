/// Why a quantity of a product cannot be turned into grants.
public enum GrantError: Error, Equatable, Sendable {
    /// Not within 1…`Limits.quantityMax`.
    case quantityOutOfRange
    /// Amount × quantity is beyond `Limits.amountMax`.
    case amountTooLarge
    /// The product's type cannot be credited yet.
    case unsupportedType
}
