/// An identifier with a fixed alphabet and length, checked once where it enters.
///
/// Ids end up in Redis keys, in URLs of stores and in logs, so each kind allows only characters that mean nothing
/// there: no slash, percent sign, space or control character. `.` and `..` are refused for every kind because they
/// are path steps in an URL.
public protocol TextIdentifier: RawRepresentable, Hashable, Sendable, CustomStringConvertible
where RawValue == String {
    /// What the kind is called in error texts, such as "player id".
    static var kindName: String { get }
    /// The longest text allowed, in bytes.
    static var bytesMax: Int { get }
    /// What `isAllowed` allows, for error texts.
    static var alphabet: String { get }
    /// Whether a byte may occur.
    static func isAllowed(_ byte: UInt8) -> Bool
}

extension TextIdentifier {
    /// Checks a text and makes the identifier.
    ///
    /// - Throws: `InvalidIdentifier`, which names the rule but never quotes the text.
    public init(validating text: String) throws(InvalidIdentifier) {
        guard let made = Self(rawValue: text) else {
            throw InvalidIdentifier(kindName: Self.kindName, reason: Self.whyNot(text))
        }
        self = made
    }

    /// The identifier's text.
    public var description: String { rawValue }

    static func accepts(_ text: String) -> Bool {
        // Over contiguous bytes: a purchase token of 160 bytes is checked several times on its way.
        text.utf8Span.span.withUnsafeBufferPointer { bytes in
            guard (1...bytesMax).contains(bytes.count) else { return false }
            for byte in bytes where !isAllowed(byte) { return false }
            let isPathStep = bytes.count <= 2 && bytes.allSatisfy { $0 == UInt8(ascii: ".") }
            return !isPathStep
        }
    }

    private static func whyNot(_ text: String) -> String {
        if text.isEmpty { return "is empty" }
        if text.utf8.count > bytesMax { return "is longer than \(bytesMax) bytes" }
        return "may contain only \(alphabet), and not be a path step"
    }
}

enum ASCII {
    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }
    static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- 0x61 < 26 }
    static func isLowercase(_ byte: UInt8) -> Bool { byte &- 0x61 < 26 }
    static func isLetterOrDigit(_ byte: UInt8) -> Bool { isDigit(byte) || isLetter(byte) }
    /// A letter, a digit, or one of `.` `_` `-`.
    static func isWord(_ byte: UInt8) -> Bool {
        isLetterOrDigit(byte) || byte == 0x2E || byte == 0x5F || byte == 0x2D
    }
    static func isLowercaseHex(_ byte: UInt8) -> Bool { isDigit(byte) || byte &- 0x61 < 6 }
}
