/// An Android application id, such as `com.mygame`.
public struct PackageName: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    ///
    /// developer.android.com, "Configure the app module": "at least two segments (one or more dots)", each of which
    /// "must start with a letter".
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        let words = rawValue.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard words.count > 1, words.allSatisfy({ $0.first.map(ASCII.isLetter) ?? false }) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "package name" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.packageNameBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String {
        "letters, digits and _ in two or more words, each begun by a letter and joined by dots"
    }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isLetterOrDigit(byte) || byte == 0x2E || byte == 0x5F }
}
