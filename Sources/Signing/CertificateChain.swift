import COpenSSL

/// Leaf, intermediate and root as they arrived in `x5c`: parsed, the root known to be pinned, nothing else believed.
struct UnverifiedChain {
    let leaf: Certificate
    let intermediate: Certificate
    let root: Certificate
    /// SHA-256 over the lengths and bytes of all three certificates.
    let digest: [UInt8]

    /// Decodes and pins.
    ///
    /// The order of the checks is that of `SignedDataCheckpoint`.
    init(x5c: [String], roots: TrustedRoots) throws(SignedDataError) {
        guard x5c.count == 3 else { throw .chainLength(x5c.count) }
        var ders: [[UInt8]] = []
        var certificates: [Certificate] = []
        for (index, text) in x5c.enumerated() {
            guard let der = Base64.decode(text), let certificate = Certificate(der: der) else {
                throw .badCertificate(index)
            }
            ders.append(der)
            certificates.append(certificate)
        }
        let rootDigest = Digest.sha256(ders[2])
        // `x5c[2]` becomes the anchor if and only if it is byte for byte a pinned certificate. A chain that is merely
        // consistent in itself proves nothing: anybody can make one.
        guard roots.contains(digest: rootDigest) else { throw .untrustedRoot(sha256: Digest.hex(rootDigest)) }
        leaf = certificates[0]
        intermediate = certificates[1]
        root = certificates[2]
        digest = Digest.sha256(Digest.sha256(ders[0]) + Digest.sha256(ders[1]) + rootDigest)
    }
}

/// A chain that leads from Apple's receipt signing certificate to a pinned root.
///
/// Everything about it was checked but the one thing that differs from receipt to receipt: whether the three
/// certificates were valid at its `signedDate`. That is two comparisons with `validSeconds`.
final class ValidatedChain {
    /// The part of time in which all three certificates are valid, UNIX seconds.
    let validSeconds: Range<Int64>
    let leaf: Certificate
    private let verification: OpaquePointer

    /// Validates the path at one moment.
    ///
    /// RFC 5280 by OpenSSL, in its strict mode, with one trusted certificate.
    init(_ chain: UnverifiedChain, atSeconds seconds: Int64) throws(SignedDataError) {
        try Self.validatePath(chain, atSeconds: seconds)
        guard chain.leaf.hasExtension(Self.receiptSigning) else { throw .leafMarkerMissing }
        guard chain.intermediate.hasExtension(Self.developerRelations) else { throw .intermediateMarkerMissing }
        guard let leafSeconds = chain.leaf.validSeconds, let middle = chain.intermediate.validSeconds,
            let rootSeconds = chain.root.validSeconds
        else { throw .pathInvalid("a validity date cannot be read") }
        // OpenSSL found all three valid at `seconds`, so the intersection cannot be empty.
        validSeconds = leafSeconds.clamped(to: middle).clamped(to: rootSeconds)
        leaf = chain.leaf
        verification = try Self.makeVerification(chain.leaf)
    }

    deinit { EVP_PKEY_CTX_free(verification) }

    /// Whether r‖s is the leaf's signature of what has this SHA-256.
    func isValid(rawSignature: [UInt8], digest: [UInt8]) -> Bool {
        guard let der = Signature.der(raw: rawSignature) else { return false }
        return withCleanErrorQueue {
            EVP_PKEY_verify(verification, der, der.count, digest, digest.count) == 1
        }
    }

    private static func makeVerification(_ leaf: Certificate) throws(SignedDataError) -> OpaquePointer {
        guard let key = X509_get_pubkey(leaf.pointer) else { throw .badKey }
        let handle = KeyHandle(takingOwnershipOf: key)
        guard handle.curve == .p256 else { throw .badKey }
        // The context holds its own reference to the key and is reused for every receipt of this chain.
        guard let context = EVP_PKEY_CTX_new(key, nil) else { throw .badKey }
        guard EVP_PKEY_verify_init(context) == 1 else {
            EVP_PKEY_CTX_free(context)
            throw .badKey
        }
        return context
    }

    private static func validatePath(_ chain: UnverifiedChain, atSeconds seconds: Int64) throws(SignedDataError) {
        let (code, length) = withCleanErrorQueue { verifyCertificate(chain, atSeconds: seconds) }
        switch code {
        case X509_V_OK: break
        case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: throw .expiredAtSigning
        case X509_V_ERR_INVALID_CA: throw .notACertificateAuthority
        default: throw .pathInvalid(String(cString: X509_verify_cert_error_string(Int(code))))
        }
        // Three, so that the intermediate is in the path: the root could have issued the leaf itself.
        guard length == 3 else { throw .pathInvalid("it does not lead through the intermediate") }
        // A signing certificate that is itself an authority, or that is not meant for signatures, is not Apple's.
        guard !chain.leaf.isAuthority else { throw .pathInvalid("the leaf is a certificate authority") }
        guard chain.leaf.mayMakeSignatures else { throw .pathInvalid("the leaf's key usage allows no signatures") }
    }

    /// OpenSSL's verdict and the length of the path; what cannot even be asked is `X509_V_ERR_UNSPECIFIED`.
    private static func verifyCertificate(
        _ chain: UnverifiedChain, atSeconds seconds: Int64
    ) -> (code: Int32, length: Int32) {
        guard let store = X509_STORE_new(), let untrusted = teller_sk_X509_new_null(),
            let context = X509_STORE_CTX_new()
        else { preconditionFailure("OpenSSL has no memory for a certificate store") }
        defer {
            X509_STORE_CTX_free(context)
            teller_sk_X509_free(untrusted)
            X509_STORE_free(store)
        }
        guard X509_STORE_add_cert(store, chain.root.pointer) == 1,
            teller_sk_X509_push(untrusted, chain.intermediate.pointer) > 0,
            X509_STORE_CTX_init(context, store, chain.leaf.pointer, untrusted) == 1,
            let parameters = X509_STORE_CTX_get0_param(context)
        else { return (X509_V_ERR_UNSPECIFIED, 0) }
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_X509_STRICT))
        X509_VERIFY_PARAM_set_time(parameters, time_t(seconds))
        // 112 bits of security: no SHA-1, no short RSA keys anywhere in the path.
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        X509_VERIFY_PARAM_set_depth(parameters, 2)
        guard X509_verify_cert(context) == 1 else {
            let code = X509_STORE_CTX_get_error(context)
            return (code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code, 0)
        }
        return (X509_V_OK, teller_sk_X509_num(X509_STORE_CTX_get0_chain(context)))
    }

    private static let receiptSigning = marker(AppleMarker.receiptSigning)
    private static let developerRelations = marker(AppleMarker.developerRelations)

    private static func marker(_ dotted: String) -> ObjectIdentifierHandle {
        guard let handle = ObjectIdentifierHandle(dotted) else {
            preconditionFailure("OpenSSL cannot read the object identifier \(dotted)")
        }
        return handle
    }
}
