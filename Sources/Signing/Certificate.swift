import COpenSSL

/// Owns one `X509`.
final class Certificate: @unchecked Sendable {
    // Invariant: the X509 is not changed after init; OpenSSL fills its lazily computed fields under a lock of its own.
    let pointer: OpaquePointer

    init(takingOwnershipOf pointer: OpaquePointer) { self.pointer = pointer }
    deinit { X509_free(pointer) }

    /// Parses DER that must be one certificate and nothing after it.
    convenience init?(der: [UInt8]) {
        let parsed: OpaquePointer? = withCleanErrorQueue {
            der.withUnsafeBufferPointer { bytes in
                guard let start = bytes.baseAddress else { return nil }
                var cursor: UnsafePointer<UInt8>? = start
                guard let parsed = d2i_X509(nil, &cursor, bytes.count) else { return nil }
                guard cursor == start + bytes.count else {
                    X509_free(parsed)
                    return nil
                }
                return parsed
            }
        }
        guard let parsed else { return nil }
        self.init(takingOwnershipOf: parsed)
    }

    var der: [UInt8] {
        var output: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(pointer, &output)
        guard count > 0, let output else { return [] }
        defer { CRYPTO_free(output, #file, #line) }
        return Array(UnsafeBufferPointer(start: output, count: Int(count)))
    }

    /// Whether an extension with this object identifier is present; its value does not matter.
    func hasExtension(_ oid: ObjectIdentifierHandle) -> Bool {
        X509_get_ext_by_OBJ(pointer, oid.pointer, -1) >= 0
    }

    /// Critical or not, keyUsage must be there and allow signatures.
    var mayMakeSignatures: Bool {
        X509_get_extension_flags(pointer) & UInt32(EXFLAG_KUSAGE) != 0
            && X509_get_key_usage(pointer) & UInt32(KU_DIGITAL_SIGNATURE) != 0
    }

    var isAuthority: Bool { X509_check_ca(pointer) != 0 }

    /// Valid from (inclusive) and to (exclusive), UNIX seconds; nil when a date cannot be read.
    var validSeconds: Range<Int64>? {
        guard let from = Self.seconds(X509_get0_notBefore(pointer)), let to = Self.seconds(X509_get0_notAfter(pointer)),
            from <= to
        else { return nil }
        return from..<to
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        guard let time, let epoch = ASN1_TIME_set(nil, 0) else { return nil }
        defer { ASN1_TIME_free(epoch) }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return nil }
        return Int64(days) * 86_400 + Int64(seconds)
    }

    /// The subject as `CN=…,O=…` (RFC 2253), for explanations.
    var subject: String { name(X509_get_subject_name(pointer)) }
    var issuer: String { name(X509_get_issuer_name(pointer)) }

    private func name(_ name: OpaquePointer?) -> String {
        guard let bio = BIO_new(BIO_s_mem()) else { return "" }
        defer { BIO_free(bio) }
        guard teller_X509_NAME_print_rfc2253(bio, name) >= 0 else { return "" }
        var data: UnsafeMutablePointer<CChar>?
        let count = teller_BIO_get_mem_data(bio, &data)
        guard let data, count > 0 else { return "" }
        return String(decoding: UnsafeRawBufferPointer(start: data, count: count), as: UTF8.self)
    }
}

/// Owns one `ASN1_OBJECT` made from dotted text.
final class ObjectIdentifierHandle: @unchecked Sendable {
    // Invariant: never changed after init, and OpenSSL only reads it.
    let pointer: OpaquePointer

    init?(_ dotted: String) {
        // 1: digits only. With names allowed, a misspelt identifier could match something else.
        guard let made = withCleanErrorQueue({ OBJ_txt2obj(dotted, 1) }) else { return nil }
        pointer = made
    }

    deinit { ASN1_OBJECT_free(pointer) }
}

/// The extensions by which Apple marks what a certificate under its root is for.
public enum AppleMarker {
    /// Mac App Store and iTunes Store receipt signing: on the leaf.
    public static let receiptSigning = "1.2.840.113635.100.6.11.1"
    /// Worldwide Developer Relations: on the intermediate.
    public static let developerRelations = "1.2.840.113635.100.6.2.1"
}
