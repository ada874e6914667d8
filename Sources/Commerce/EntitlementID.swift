/// A durable right of a player; a non-consumable grants the one named like its product.
public struct EntitlementID: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "entitlement id" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.productIDBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "letters, digits and . _ -" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isWord(byte) }

    /// The entitlement that owning a non-consumable product means.
    public init(owning product: ProductID) { rawValue = product.rawValue }
}
