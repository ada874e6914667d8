import COpenSSL

/// A private key file could not be used.
///
/// Never quotes the file.
public enum KeyError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Not an unencrypted PEM key (PKCS#8, as Apple's `.p8` and Google's `private_key` are).
    case notPEM
    /// A key of another kind than the algorithm needs.
    case wrongKind(expected: String)
    /// OpenSSL failed.
    case openSSL(OpenSSLError)

    /// What is wrong, in one sentence.
    public var description: String {
        switch self {
        case .notPEM: "this is not an unencrypted key in PEM form (-----BEGIN PRIVATE KEY-----)"
        case .wrongKind(let expected): "this key cannot be used here: expected \(expected)"
        case .openSSL(let error): error.description
        }
    }
}

/// Owns one `EVP_PKEY`, private or public.
final class KeyHandle: @unchecked Sendable {
    // Invariant: an EVP_PKEY is never changed after it was made, and OpenSSL guards its reference count and caches with
    // locks of its own; every operation makes its own EVP_PKEY_CTX, which is the part that is not thread-safe.
    let pointer: OpaquePointer

    init(takingOwnershipOf pointer: OpaquePointer) { self.pointer = pointer }
    deinit { EVP_PKEY_free(pointer) }

    /// Larger than any key we accept; keeps a wrong file from being read as PEM at length.
    private static let pemBytesMax = 64 * 1024

    static func privateKey(pem: String) throws(KeyError) -> KeyHandle {
        try read(pem) { bio in
            // Without a callback OpenSSL would ask for a pass phrase on the terminal; an empty answer means failure.
            PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil)
        }
    }

    static func publicKey(pem: String) throws(KeyError) -> KeyHandle {
        try read(pem) { bio in PEM_read_bio_PUBKEY(bio, nil, { _, _, _, _ in 0 }, nil) }
    }

    private static func read(_ pem: String, _ parse: (OpaquePointer) -> OpaquePointer?) throws(KeyError) -> KeyHandle {
        guard pem.utf8.count <= pemBytesMax else { throw .notPEM }
        let parsed: OpaquePointer? = withCleanErrorQueue {
            var pem = pem
            return pem.withUTF8 { text in
                guard let bio = BIO_new_mem_buf(text.baseAddress, Int32(text.count)) else { return nil }
                defer { BIO_free(bio) }
                return parse(bio)
            }
        }
        guard let parsed else { throw .notPEM }
        return KeyHandle(takingOwnershipOf: parsed)
    }

    static func generate(_ curve: EllipticCurve) throws(KeyError) -> KeyHandle {
        try generated("generate an EC key") { teller_EVP_EC_gen(curve.rawValue) }
    }

    static func generateRSA(bits: Int) throws(KeyError) -> KeyHandle {
        try generated("generate an RSA key") { teller_EVP_RSA_gen(UInt32(bits)) }
    }

    private static func generated(_ operation: String, _ make: () -> OpaquePointer?) throws(KeyError) -> KeyHandle {
        let (key, failure) = withCleanErrorQueue { () -> (OpaquePointer?, OpenSSLError?) in
            let key = make()
            return (key, key == nil ? .draining(operation) : nil)
        }
        guard let key else { throw .openSSL(failure ?? OpenSSLError(operation: operation, reasons: [])) }
        return KeyHandle(takingOwnershipOf: key)
    }

    /// PKCS#8 PEM of the private key.
    var privatePEM: String? { write { PEM_write_bio_PKCS8PrivateKey($0, pointer, nil, nil, 0, nil, nil) } }
    /// SubjectPublicKeyInfo PEM of the public half.
    var publicPEM: String? { write { PEM_write_bio_PUBKEY($0, pointer) } }

    private func write(_ body: (OpaquePointer) -> Int32) -> String? {
        withCleanErrorQueue {
            guard let bio = BIO_new(BIO_s_mem()) else { return nil }
            defer { BIO_free(bio) }
            guard body(bio) == 1 else { return nil }
            var data: UnsafeMutablePointer<CChar>?
            let count = teller_BIO_get_mem_data(bio, &data)
            guard let data, count > 0 else { return nil }
            return String(decoding: UnsafeRawBufferPointer(start: data, count: count), as: UTF8.self)
        }
    }

    var isRSA: Bool { EVP_PKEY_get_base_id(pointer) == EVP_PKEY_RSA }
    var bits: Int { Int(EVP_PKEY_get_bits(pointer)) }

    /// Nil for another kind of key, another curve, or explicitly given curve parameters (which have no name).
    var curve: EllipticCurve? {
        guard EVP_PKEY_get_base_id(pointer) == EVP_PKEY_EC else { return nil }
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1 else { return nil }
        return EllipticCurve(
            rawValue: String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }
}

/// The curves of Apple's certificates, by OpenSSL's names.
public enum EllipticCurve: String, Sendable {
    /// NIST P-256: leaf certificates and App Store Connect keys.
    case p256 = "prime256v1"
    /// NIST P-384: root and intermediate certificates.
    case p384 = "secp384r1"
}

/// A P-256 private key for ES256 (RFC 7518 §3.4): Apple's `.p8` files.
public struct ES256Key: JWTSigningKey {
    let handle: KeyHandle

    /// Reads an unencrypted PEM key; any other curve is refused.
    public init(pem: String) throws(KeyError) {
        try self.init(KeyHandle.privateKey(pem: pem))
    }

    init(_ handle: KeyHandle) throws(KeyError) {
        guard handle.curve == .p256 else { throw .wrongKind(expected: "an EC key on the curve P-256") }
        self.handle = handle
    }

    /// A fresh key.
    public static func generate() throws(KeyError) -> ES256Key { try ES256Key(KeyHandle.generate(.p256)) }

    /// PKCS#8 PEM.
    ///
    /// A secret.
    public var pem: String { handle.privatePEM ?? "" }
    /// The public half.
    public var publicKey: ES256PublicKey { ES256PublicKey(handle) }
    /// `ES256`.
    public var algorithm: String { "ES256" }

    /// r‖s, 64 bytes.
    public func signature(of bytes: [UInt8]) throws(OpenSSLError) -> [UInt8] {
        let der = try Signature.make(handle, digest: Digest.sha256(bytes)) { _ in true }
        guard let raw = Signature.raw(der: der) else {
            throw OpenSSLError(operation: "convert an ECDSA signature", reasons: [])
        }
        return raw
    }
}

/// An RSA private key for RS256 (RFC 7518 §3.3): Google service accounts.
public struct RS256Key: JWTSigningKey {
    /// RFC 7518 §3.3: "A key of size 2048 bits or larger MUST be used".
    public static let bitsMin = 2048
    let handle: KeyHandle

    /// Reads an unencrypted PEM key; keys under 2048 bits are refused.
    public init(pem: String) throws(KeyError) {
        try self.init(KeyHandle.privateKey(pem: pem))
    }

    init(_ handle: KeyHandle) throws(KeyError) {
        guard handle.isRSA, handle.bits >= Self.bitsMin else {
            throw .wrongKind(expected: "an RSA key of at least \(Self.bitsMin) bits")
        }
        self.handle = handle
    }

    /// A fresh key of 2048 bits (takes some 50 ms).
    public static func generate() throws(KeyError) -> RS256Key { try RS256Key(KeyHandle.generateRSA(bits: bitsMin)) }

    /// PKCS#8 PEM.
    ///
    /// A secret.
    public var pem: String { handle.privatePEM ?? "" }
    /// The public half.
    public var publicKey: RS256PublicKey { RS256PublicKey(handle) }
    /// `RS256`.
    public var algorithm: String { "RS256" }

    /// PKCS #1 v1.5 with SHA-256.
    public func signature(of bytes: [UInt8]) throws(OpenSSLError) -> [UInt8] {
        try Signature.make(handle, digest: Digest.sha256(bytes), configure: Signature.configurePKCS1)
    }
}

/// The public half of an `ES256Key`.
public struct ES256PublicKey: JWTVerificationKey {
    let handle: KeyHandle

    /// Reads a SubjectPublicKeyInfo PEM.
    public init(pem: String) throws(KeyError) {
        let handle = try KeyHandle.publicKey(pem: pem)
        guard handle.curve == .p256 else { throw .wrongKind(expected: "an EC key on the curve P-256") }
        self.handle = handle
    }

    init(_ handle: KeyHandle) { self.handle = handle }

    /// SubjectPublicKeyInfo PEM.
    public var pem: String { handle.publicPEM ?? "" }
    /// `ES256`.
    public var algorithm: String { "ES256" }

    /// Whether r‖s is this key's signature of the bytes.
    public func isValid(_ signature: [UInt8], for bytes: [UInt8]) -> Bool {
        guard let der = Signature.der(raw: signature) else { return false }
        return Signature.isValid(handle, der, digest: Digest.sha256(bytes)) { _ in true }
    }
}

/// The public half of an `RS256Key`.
public struct RS256PublicKey: JWTVerificationKey {
    let handle: KeyHandle

    /// Reads a SubjectPublicKeyInfo PEM.
    public init(pem: String) throws(KeyError) {
        let handle = try KeyHandle.publicKey(pem: pem)
        guard handle.isRSA, handle.bits >= RS256Key.bitsMin else {
            throw .wrongKind(expected: "an RSA key of at least \(RS256Key.bitsMin) bits")
        }
        self.handle = handle
    }

    init(_ handle: KeyHandle) { self.handle = handle }

    /// SubjectPublicKeyInfo PEM.
    public var pem: String { handle.publicPEM ?? "" }
    /// `RS256`.
    public var algorithm: String { "RS256" }

    /// Whether this is the key's PKCS #1 v1.5 signature of the bytes.
    public func isValid(_ signature: [UInt8], for bytes: [UInt8]) -> Bool {
        Signature.isValid(handle, signature, digest: Digest.sha256(bytes), configure: Signature.configurePKCS1)
    }
}
