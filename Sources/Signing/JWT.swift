public import ServiceRuntime

/// Signs JSON Web Tokens with one algorithm.
public protocol JWTSigningKey: Sendable {
    /// The `alg` of the header.
    var algorithm: String { get }
    /// The signature in the form JWS wants.
    func signature(of bytes: [UInt8]) throws(OpenSSLError) -> [UInt8]
}

/// Checks JSON Web Tokens of one algorithm: a key never accepts a token that names another.
public protocol JWTVerificationKey: Sendable {
    /// The only `alg` this key accepts.
    var algorithm: String { get }
    /// Whether the signature is this key's.
    func isValid(_ signature: [UInt8], for bytes: [UInt8]) -> Bool
}

/// Why a token was not accepted.
public enum JWTError: Error, Equatable, Sendable {
    /// Longer than the caller allows.
    case tooLarge
    /// Not three base64url segments with a JSON object in the first two.
    case malformed
    /// The header names another algorithm than the key's.
    case algorithmNotAllowed
    /// The signature is not the key's.
    case badSignature
}

/// A token whose signature was checked.
///
/// What its claims mean is the caller's business.
public struct VerifiedJWT {
    /// The protected header, an object.
    public let header: JSONView
    /// The claims, an object.
    public let claims: JSONView
}

/// Compact JSON Web Tokens (RFC 7519): what Teller presents to Apple and Google, and what the store emulator checks.
public enum JWT {
    /// Longest token that `verify` looks at unless told otherwise.
    public static let bytesMax = 16 * 1024

    /// A signed token; `claims` is a JSON object, `keyID` becomes `kid`.
    public static func mint(
        claims: [UInt8], keyID: String?, key: some JWTSigningKey
    ) throws(OpenSSLError) -> String {
        var header = JSONWriter()
        header.object { header in
            header.member("alg", key.algorithm)
            if let keyID { header.member("kid", keyID) }
            header.member("typ", "JWT")
        }
        return try sign(header: header.bytes, payload: claims, key: key)
    }

    /// A compact JWS over any header and payload, as given.
    public static func sign(
        header: [UInt8], payload: [UInt8], key: some JWTSigningKey
    ) throws(OpenSSLError) -> String {
        let input = Base64URL.encode(header) + "." + Base64URL.encode(payload)
        return input + "." + Base64URL.encode(try key.signature(of: Array(input.utf8)))
    }

    /// The `kid` of a token that nobody has checked yet: only good for choosing the key to check it with.
    public static func unverifiedKeyID(_ token: String, bytesMax: Int = bytesMax) -> String? {
        guard token.utf8.count <= bytesMax, let segment = token.split(separator: ".").first,
            let bytes = Base64URL.decode(String(segment)), let header = try? JSONView.parse(bytes)
        else { return nil }
        return try? header["kid"]?.string()
    }

    /// The header and claims of a token that this key signed.
    public static func verify(
        _ token: String, key: some JWTVerificationKey, bytesMax: Int = bytesMax
    ) throws(JWTError) -> VerifiedJWT {
        guard token.utf8.count <= bytesMax else { throw .tooLarge }
        let segments = token.split(separator: ".", omittingEmptySubsequences: false)
        guard segments.count == 3, let headerBytes = Base64URL.decode(String(segments[0])),
            let claimBytes = Base64URL.decode(String(segments[1])),
            let signature = Base64URL.decode(String(segments[2])),
            let header = try? JSONView.parse(headerBytes), header.kind == .object,
            let claims = try? JSONView.parse(claimBytes), claims.kind == .object
        else { throw .malformed }
        guard let algorithm = try? header["alg"]?.string(), algorithm == key.algorithm else {
            throw .algorithmNotAllowed
        }
        let input = Array("\(segments[0]).\(segments[1])".utf8)
        guard key.isValid(signature, for: input) else { throw .badSignature }
        return VerifiedJWT(header: header, claims: claims)
    }
}
