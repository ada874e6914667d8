/// Google's id of a charge.
///
/// Promo purchases have none, so it is never a key.
public struct OrderID: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "order id" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.orderIDBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "letters, digits and . _ -" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isWord(byte) }
}
