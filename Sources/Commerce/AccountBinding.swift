/// The link between a player and the account token inside a store's data.
///
/// The app sets Apple's `appAccountToken` or Google's `obfuscatedExternalAccountId` when it starts a purchase. When
/// the store's answer carries one and it is not the player's, the purchase was made for somebody else.
public struct AccountBinding: Sendable, Equatable {
    /// The namespace of the default token, UUIDv5(namespace, user id): `74656c6c-6572-5061-8179-6572746f6b31`.
    public static let namespace: [UInt8] = [
        0x74, 0x65, 0x6C, 0x6C, 0x65, 0x72, 0x50, 0x61, 0x81, 0x79, 0x65, 0x72, 0x74, 0x6F, 0x6B, 0x31,
    ]

    /// The player's token: the request's `accountToken`, or the default.
    public let expected: String

    /// Expects a token.
    public init(expected: String) { self.expected = expected }

    /// Whether a purchase with this token may be credited to the player.
    ///
    /// A purchase without a token (offer codes, promo codes, old clients) belongs to whoever claims it first. UUIDs
    /// are compared without regard to case: Apple sends lower case, Swift's `uuidString` is upper case.
    public func allows(_ storeToken: String?) -> Bool {
        guard let storeToken, !storeToken.isEmpty else { return true }
        if storeToken == expected { return true }
        guard Self.isUUID(storeToken), Self.isUUID(expected) else { return false }
        return storeToken.lowercased() == expected.lowercased()
    }

    private static func isUUID(_ text: String) -> Bool {
        let utf8 = Array(text.utf8)
        guard utf8.count == 36 else { return false }
        return utf8.indices.allSatisfy { index in
            switch index {
            case 8, 13, 18, 23: utf8[index] == 0x2D
            default: ASCII.isDigit(utf8[index]) || (utf8[index] | 0x20) &- 0x61 < 6
            }
        }
    }
}
