/// A currency of the game, such as `gems`; not one of the real world.
public struct CurrencyCode: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "currency code" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.currencyCodeBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "small letters, digits and _" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool {
        ASCII.isLowercase(byte) || ASCII.isDigit(byte) || byte == 0x5F
    }

    /// The currency that `gemAmount` and `bonusGemAmount` of the catalogue count.
    public static let gems = CurrencyCode(known: "gems")

    private init(known text: String) { rawValue = text }
}
