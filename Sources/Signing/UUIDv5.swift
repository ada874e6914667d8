/// Name-based UUIDs (RFC 9562 §5.5): the same namespace and name always give the same UUID.
///
/// The default `appAccountToken` of a player is one, so that a game client and Teller agree on it without a table.
public enum UUIDv5 {
    /// The namespace for domain names of RFC 9562 §6.6.
    public static let dnsNamespace: [UInt8] = [
        0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8,
    ]

    /// The UUID as lower-case text; `namespace` is another UUID's 16 bytes.
    public static func make(namespace: [UInt8], name: String) -> String {
        precondition(namespace.count == 16, "a UUID namespace has 16 bytes")
        var bytes = Array(Digest.sha1(namespace + Array(name.utf8)).prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x50
        bytes[8] = bytes[8] & 0x3F | 0x80
        return text(bytes)
    }

    /// The 16 bytes of a UUID written 8-4-4-4-12 in either case, or nil.
    public static func bytes(_ text: String) -> [UInt8]? {
        let groups = text.split(separator: "-", omittingEmptySubsequences: false)
        guard groups.map(\.utf8.count) == [8, 4, 4, 4, 12] else { return nil }
        return Digest.bytes(hex: groups.joined())
    }

    private static let hexDigits = Array("0123456789abcdef".utf8)

    /// Written byte by byte: this is done once for each receipt whose purchase names its buyer.
    private static func text(_ bytes: [UInt8]) -> String {
        String(unsafeUninitializedCapacity: 36) { text in
            var place = 0
            for (index, byte) in bytes.enumerated() {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text[place] = UInt8(ascii: "-")
                    place += 1
                }
                text[place] = hexDigits[Int(byte >> 4)]
                text[place + 1] = hexDigits[Int(byte & 0x0F)]
                place += 2
            }
            return place
        }
    }
}
