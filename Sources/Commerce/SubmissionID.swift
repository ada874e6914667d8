/// The name of a receipt submission: the partition, a dash, and 32 hex digits.
///
/// The digits are the first 16 bytes of SHA-256 over `ReceiptSubmission.canonicalBytes`, so the same receipt sent
/// again is the same submission, and any program can compute the name of what it pushed. The partition comes first
/// because a poll knows nothing else about the player.
public struct SubmissionID: TextIdentifier {
    /// The checked text, such as `0-8c1f…`.
    public let rawValue: String

    /// Makes the identifier when the text has the shape, else nil.
    public init?(rawValue: String) {
        let parts = rawValue.utf8.split(separator: 0x2D, omittingEmptySubsequences: false)
        guard parts.count == 2, (1...5).contains(parts[0].count), parts[0].allSatisfy(ASCII.isDigit),
            parts[1].count == 2 * Self.digestBytes, parts[1].allSatisfy(ASCII.isLowercaseHex)
        else { return nil }
        self.rawValue = rawValue
    }

    /// Names a submission.
    ///
    /// - Parameters:
    ///   - partition: the partition of the player.
    ///   - digest: SHA-256 of `ReceiptSubmission.canonicalBytes`; at least 16 bytes, of which the first 16 count.
    public init(partition: Int = 0, digest: [UInt8]) {
        precondition(digest.count >= Self.digestBytes, "a submission digest has at least 16 bytes")
        precondition((0...99_999).contains(partition), "a partition has at most five digits")
        rawValue = "\(partition)-\(lowercaseHex(digest.prefix(Self.digestBytes)))"
    }

    static let digestBytes = 16

    /// The partition the submission lives in.
    public var partition: Int { Int(rawValue.prefix { $0 != "-" }) ?? 0 }

    /// What error texts call it.
    public static var kindName: String { "submission id" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { 38 }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "a partition number, a dash and 32 hex digits" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isLowercaseHex(byte) || byte == 0x2D }
}

func lowercaseHex(_ bytes: some Collection<UInt8>) -> String {
    let digits: StaticString = "0123456789abcdef"
    return String(unsafeUninitializedCapacity: 2 * bytes.count) { buffer in
        var at = 0
        for byte in bytes {
            buffer[at] = digits.utf8Start[Int(byte >> 4)]
            buffer[at + 1] = digits.utf8Start[Int(byte & 15)]
            at += 2
        }
        return at
    }
}
