/// A product as one store knows it: Apple's `productId`, Google's product id or SKU.
public struct StoreProductID: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "store product id" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.storeProductIDBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "letters, digits and . _ -" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isWord(byte) }
}
