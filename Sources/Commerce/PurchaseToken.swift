/// Google Play's opaque handle of a purchase.
///
/// Whoever holds it can present it, so it is never printed.
public struct PurchaseToken: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "purchase token" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.purchaseTokenBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "letters, digits and . _ -" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isWord(byte) }

    /// A placeholder; the token itself is never printed.
    public var description: String { "(purchase token)" }
}
