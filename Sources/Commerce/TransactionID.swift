/// Apple's id of one charge, or of the first one of its chain (`originalTransactionId`); always text, never a number.
public struct TransactionID: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "transaction id" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.transactionIDDigitsMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "digits" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isDigit(byte) }
}
