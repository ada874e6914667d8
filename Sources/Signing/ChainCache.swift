import Glibc

/// The chains that passed, so that a receipt costs one P-256 verification instead of three, two of them on P-384.
///
/// Two levels. By the digest of the certificates: filled as soon as a path is valid, which only a holder of Apple's
/// keys can make happen. By the raw text of the header: saves parsing 4 KB of base64 and DER, but its key is up to the
/// sender (a header may carry extra members), so it is filled only after the signature proved that the sender is
/// Apple. Otherwise a stream of forgeries around a genuine chain could push every useful entry out.
struct ChainCache {
    private struct Entry<Key> {
        let key: Key
        let chain: ValidatedChain
    }

    private let entriesMax: Int
    // Most recently used first. A handful of leaves are live at a time, so a scan is quicker than hashing 4 KB.
    private var byHeader: [Entry<[UInt8]>] = []
    private var byDigest: [Entry<[UInt8]>] = []

    init(entriesMax: Int) {
        precondition(entriesMax >= 0, "a cache cannot hold fewer than no entries")
        self.entriesMax = entriesMax
    }

    /// Chains known by their certificates.
    var count: Int { byDigest.count }

    mutating func chain(header: UnsafeRawBufferPointer) -> ValidatedChain? {
        Self.find(in: &byHeader) { key in
            guard let other = header.baseAddress, key.count == header.count else { return false }
            return key.withUnsafeBytes { bytes in bytes.baseAddress.map { memcmp($0, other, key.count) == 0 } ?? false }
        }
    }

    mutating func chain(digest: [UInt8]) -> ValidatedChain? { Self.find(in: &byDigest) { $0 == digest } }

    mutating func insert(_ chain: ValidatedChain, digest: [UInt8]) { insert(chain, digest, &byDigest) }
    mutating func insert(_ chain: ValidatedChain, header: [UInt8]) { insert(chain, header, &byHeader) }

    private func insert(_ chain: ValidatedChain, _ key: [UInt8], _ entries: inout [Entry<[UInt8]>]) {
        guard entriesMax > 0 else { return }
        if entries.count == entriesMax { entries.removeLast() }
        entries.insert(Entry(key: key, chain: chain), at: 0)
    }

    private static func find(in entries: inout [Entry<[UInt8]>], _ matches: ([UInt8]) -> Bool) -> ValidatedChain? {
        guard let index = entries.firstIndex(where: { matches($0.key) }) else { return nil }
        if index > 0 { entries.insert(entries.remove(at: index), at: 0) }
        return entries[0].chain
    }
}
