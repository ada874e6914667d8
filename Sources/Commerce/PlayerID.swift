/// The game's own id of a player, as the game server sends it (`userId`).
public struct PlayerID: TextIdentifier {
    /// The checked text.
    public let rawValue: String

    /// Makes the identifier when the text keeps its rules, else nil.
    public init?(rawValue: String) {
        guard Self.accepts(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// What error texts call it.
    public static var kindName: String { "player id" }
    /// The longest text, in bytes.
    public static var bytesMax: Int { Limits.playerIDBytesMax }
    /// The allowed characters, for error texts.
    public static var alphabet: String { "letters, digits and . _ : @ -" }
    /// Whether a byte may occur.
    public static func isAllowed(_ byte: UInt8) -> Bool { ASCII.isWord(byte) || byte == 0x3A || byte == 0x40 }
}
