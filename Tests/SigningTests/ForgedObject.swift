import ServiceRuntime
import Signing
import Testing

/// One row of the attack table: what an attacker sends, and the reason for which it must be refused.
struct ForgedObject: Sendable, CustomTestStringConvertible {
    let name: String
    let text: String
    let expected: SignedDataError
    var testDescription: String { name }

    init(_ name: String, _ text: String, _ expected: SignedDataError) {
        self.name = name
        self.text = text
        self.expected = expected
    }
}

/// The chain that the tests trust, and the means to forge around it.
enum Forge {
    static let now = UnixMilliseconds(seconds: 1_793_000_000)
    static let payload = Array(
        #"{"transactionId":"2000001234500777","quantity":2,"signedDate":\#(now.value - 1250)}"#.utf8)

    /// Throws only when OpenSSL is broken; the tests that use it say so.
    static let genuine = Result { () throws(KeyError) in try MintedChain.make(around: now) }
    static let rogue = Result { () throws(KeyError) in try MintedChain.make(around: now) }

    static func payload(signed: UnixMilliseconds) -> [UInt8] {
        Array(#"{"transactionId":"1","signedDate":\#(signed.value)}"#.utf8)
    }

    /// A JWS with this header, signed by the leaf's own key.
    static func sign(header: [UInt8], by chain: MintedChain) throws -> String {
        try JWT.sign(header: header, payload: payload, key: chain.leaf.signingKey())
    }

    /// A chain in which one certificate's template was changed before it was issued under the trusted root.
    static func chain(
        intermediate changeIntermediate: (inout CertificateTemplate) -> Void = { _ in },
        leaf changeLeaf: (inout CertificateTemplate) -> Void = { _ in }
    ) throws -> MintedChain {
        let genuine = try genuine.get()
        var intermediate = CertificateTemplate.intermediate(around: now)
        changeIntermediate(&intermediate)
        var leaf = CertificateTemplate.leaf(around: now)
        changeLeaf(&leaf)
        let issuer = try genuine.root.issue(intermediate)
        return try MintedChain(root: genuine.root, intermediate: issuer, leaf: issuer.issue(leaf))
    }

    static func hmac(key: [UInt8], _ text: String) -> [UInt8] {
        var block = key.count > 64 ? Digest.sha256(key) : key
        block += [UInt8](repeating: 0, count: 64 - block.count)
        let inner = Digest.sha256(block.map { $0 ^ 0x36 } + Array(text.utf8))
        return Digest.sha256(block.map { $0 ^ 0x5C } + inner)
    }

    static func segments(_ jws: String) -> [String] {
        jws.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    }

    static func replacing(_ jws: String, segment index: Int, with bytes: [UInt8]) -> String {
        var segments = segments(jws)
        segments[index] = Base64URL.encode(bytes)
        return segments.joined(separator: ".")
    }

    static func signature(of jws: String) -> [UInt8] { Base64URL.decode(segments(jws)[2]) ?? [] }
}
