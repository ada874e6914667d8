/// The certificates that may end a chain, known by nothing but the SHA-256 of their DER.
///
/// A fingerprint is enough: the certificate itself arrives in `x5c[2]`, and only the one certificate with this
/// digest can be used as the anchor.
public struct TrustedRoots: Sendable, Equatable {
    /// Apple Root CA - G3, published at https://www.apple.com/certificateauthority/.
    public static let apple = TrustedRoots(digests: [
        [
            0x63, 0x34, 0x3A, 0xBF, 0xB8, 0x9A, 0x6A, 0x03, 0xEB, 0xB5, 0x7E, 0x9B, 0x3F, 0x5F, 0xA7, 0xBE,
            0x7C, 0x4F, 0x5C, 0x75, 0x6F, 0x30, 0x17, 0xB3, 0xA8, 0xC4, 0x88, 0xC3, 0x65, 0x3E, 0x91, 0x79,
        ]
    ])

    private let digests: Set<[UInt8]>

    init(digests: Set<[UInt8]>) { self.digests = digests }

    /// A configured text is not the hexadecimal SHA-256 of a certificate.
    public struct InvalidFingerprint: Error, Equatable, Sendable {
        /// Which of the texts, from 0.
        public let index: Int

        /// The text at `index` is not a fingerprint.
        public init(index: Int) { self.index = index }
    }

    /// Roots given as 64 hexadecimal digits each, with or without colons, in either case.
    public init(sha256Fingerprints texts: [String]) throws(InvalidFingerprint) {
        var digests: Set<[UInt8]> = []
        for (index, text) in texts.enumerated() {
            let digits = text.filter { $0 != ":" }
            guard let digest = Digest.bytes(hex: digits), digest.count == 32 else {
                throw InvalidFingerprint(index: index)
            }
            digests.insert(digest)
        }
        self.digests = digests
    }

    /// Whether Apple's root is the only one.
    ///
    /// Everything else deserves a loud warning in production.
    public var isOnlyApple: Bool { self == .apple }

    /// The fingerprints in lower-case hexadecimal, sorted.
    public var fingerprints: [String] { digests.map { Digest.hex($0) }.sorted() }

    func contains(digest: [UInt8]) -> Bool { digests.contains(digest) }
}
