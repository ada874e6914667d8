import COpenSSL

/// Signing and verifying SHA-256 digests with an `EVP_PKEY`, and the two forms of an ECDSA signature.
enum Signature {
    /// r and s of P-256, each 32 bytes (RFC 7518 §3.4).
    static let rawBytes = 64

    /// RS256 is RSASSA-PKCS1-v1_5 over SHA-256; the digest must be named, it is part of what is signed.
    static func configurePKCS1(_ context: OpaquePointer) -> Bool {
        EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) > 0
            && EVP_PKEY_CTX_set_signature_md(context, Digest.algorithms.sha256.pointer) > 0
    }

    static func make(
        _ key: KeyHandle, digest: [UInt8], configure: (OpaquePointer) -> Bool
    ) throws(OpenSSLError) -> [UInt8] {
        try withCleanErrorQueue { () throws(OpenSSLError) -> [UInt8] in
            guard let context = EVP_PKEY_CTX_new(key.pointer, nil) else { throw .draining("prepare a signature") }
            defer { EVP_PKEY_CTX_free(context) }
            guard EVP_PKEY_sign_init(context) == 1, configure(context) else { throw .draining("prepare a signature") }
            var size = Int(EVP_PKEY_get_size(key.pointer))
            var signature = [UInt8](repeating: 0, count: size)
            guard EVP_PKEY_sign(context, &signature, &size, digest, digest.count) == 1 else {
                throw .draining("sign")
            }
            signature.removeSubrange(size...)
            return signature
        }
    }

    static func isValid(
        _ key: KeyHandle, _ signature: [UInt8], digest: [UInt8], configure: (OpaquePointer) -> Bool
    ) -> Bool {
        withCleanErrorQueue {
            guard let context = EVP_PKEY_CTX_new(key.pointer, nil) else { return false }
            defer { EVP_PKEY_CTX_free(context) }
            guard EVP_PKEY_verify_init(context) == 1, configure(context) else { return false }
            // Negative for malformed signatures, 0 for wrong ones: only 1 is a yes.
            return EVP_PKEY_verify(context, signature, signature.count, digest, digest.count) == 1
        }
    }

    /// The DER form that OpenSSL wants; nil unless there are exactly 64 bytes.
    static func der(raw: [UInt8]) -> [UInt8]? {
        guard raw.count == rawBytes, let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let half = Int32(rawBytes / 2)
        let (r, s) = raw.withUnsafeBufferPointer { bytes -> (OpaquePointer?, OpaquePointer?) in
            guard let base = bytes.baseAddress else { return (nil, nil) }
            return (BN_bin2bn(base, half, nil), BN_bin2bn(base + rawBytes / 2, half, nil))
        }
        guard let r, let s, ECDSA_SIG_set0(signature, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        var output: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(signature, &output)
        guard count > 0, let output else { return nil }
        defer { CRYPTO_free(output, #file, #line) }
        return Array(UnsafeBufferPointer(start: output, count: Int(count)))
    }

    /// r‖s of a P-256 signature in DER.
    static func raw(der: [UInt8]) -> [UInt8]? {
        let parsed = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var cursor = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &cursor, bytes.count)
        }
        guard let parsed else { return nil }
        defer { ECDSA_SIG_free(parsed) }
        var raw = [UInt8](repeating: 0, count: rawBytes)
        let half = Int32(rawBytes / 2)
        let isComplete = raw.withUnsafeMutableBufferPointer { bytes -> Bool in
            guard let base = bytes.baseAddress else { return false }
            return BN_bn2binpad(ECDSA_SIG_get0_r(parsed), base, half) == half
                && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), base + rawBytes / 2, half) == half
        }
        return isComplete ? raw : nil
    }
}
