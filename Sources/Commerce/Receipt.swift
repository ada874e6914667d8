/// The proof a client submits, before anybody trusts it.
///
/// Held in its normalised form, so that the same proof sent in two spellings is one submission. Never printed.
public struct Receipt: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Which proof it is.
    public enum Kind: Sendable, Hashable {
        /// Apple's JWS of StoreKit 2.
        case signedTransaction
        /// Apple's app receipt of StoreKit 1, base64.
        case appReceipt
        /// Google Play's purchase token.
        case purchaseToken
    }

    /// Which proof it is.
    public let kind: Kind
    /// The proof: the JWS as sent, the base64 without white space, or the bare purchase token.
    public let text: String

    init(kind: Kind, text: String) {
        self.kind = kind
        self.text = text
    }

    /// The store that can check it.
    public var store: Store { kind == .purchaseToken ? .googlePlay : .appStore }

    /// The purchase token, when it is one.
    public var purchaseToken: PurchaseToken? { kind == .purchaseToken ? PurchaseToken(rawValue: text) : nil }

    /// The kind only.
    public var description: String { "(receipt: \(kind))" }
    /// The kind only.
    public var debugDescription: String { description }
    /// Shows no stored value, so that `dump` shows none.
    public var customMirror: Mirror { Mirror(self, children: ["kind": kind]) }
}
