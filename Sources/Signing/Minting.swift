import COpenSSL
public import ServiceRuntime

/// What a certificate to be made should say.
///
/// The presets are the shapes of Apple's own (store-specific markers
/// included); every property can be changed to make a certificate that must be refused.
public struct CertificateTemplate: Sendable {
    /// Subject CN.
    public var commonName: String
    /// Curve of the new key.
    public var curve: EllipticCurve
    /// Valid from; X.509 has whole seconds.
    public var notBefore: UnixMilliseconds
    /// Valid to.
    public var notAfter: UnixMilliseconds
    /// Critical basicConstraints in OpenSSL's words (`CA:TRUE,pathlen:0`); nil leaves the extension out.
    public var basicConstraints: String?
    /// Critical keyUsage in OpenSSL's words (`digitalSignature`); nil leaves the extension out.
    public var keyUsage: String?
    /// Whether it carries subject and authority key identifiers.
    ///
    /// OpenSSL's strict mode wants them.
    public var hasKeyIdentifiers = true
    /// Object identifiers of marker extensions; the value is an ASN.1 NULL as in Apple's.
    public var markers: [String] = []

    /// A root like Apple Root CA - G3, valid from ten years before to ten years after.
    public static func root(around now: UnixMilliseconds) -> CertificateTemplate {
        CertificateTemplate(
            commonName: "Emulated Root CA", curve: .p384, notBefore: now - year * 10,
            notAfter: now + year * 10, basicConstraints: "CA:TRUE", keyUsage: "keyCertSign,cRLSign")
    }

    /// An intermediate like Apple's WWDR G6, valid from five years before to five years after.
    public static func intermediate(around now: UnixMilliseconds) -> CertificateTemplate {
        CertificateTemplate(
            commonName: "Emulated Developer Relations CA", curve: .p384, notBefore: now - year * 5,
            notAfter: now + year * 5, basicConstraints: "CA:TRUE,pathlen:0", keyUsage: "keyCertSign,cRLSign",
            markers: [AppleMarker.developerRelations])
    }

    /// A leaf like Apple's receipt signing certificate, valid from one year before to one year after.
    public static func leaf(around now: UnixMilliseconds) -> CertificateTemplate {
        CertificateTemplate(
            commonName: "Emulated Receipt Signing", curve: .p256, notBefore: now - year,
            notAfter: now + year, basicConstraints: "CA:FALSE", keyUsage: "digitalSignature",
            markers: [AppleMarker.receiptSigning])
    }

    private static let year: Duration = .seconds(365 * 86_400)
}

/// A certificate that was made here, with its private key.
public struct MintedCertificate: Sendable {
    let certificate: Certificate
    let key: KeyHandle
    /// The certificate.
    public let der: [UInt8]

    /// SHA-256 of the DER in lower-case hexadecimal: what goes into `TrustedRoots`.
    public var fingerprint: String { Digest.hex(Digest.sha256(der)) }

    /// The certificate's key as an ES256 key; throws when it is on another curve.
    public func signingKey() throws(KeyError) -> ES256Key { try ES256Key(key) }

    /// SubjectPublicKeyInfo PEM of the certificate's key.
    public var publicKeyPEM: String { key.publicPEM ?? "" }

    /// A certificate that signs itself.
    public static func selfSigned(_ template: CertificateTemplate) throws(KeyError) -> MintedCertificate {
        try make(template, issuer: nil)
    }

    /// A certificate with a fresh key, signed by this one, whether or not this one may do that.
    public func issue(_ template: CertificateTemplate) throws(KeyError) -> MintedCertificate {
        try Self.make(template, issuer: self)
    }

    private static func make(
        _ template: CertificateTemplate, issuer: MintedCertificate?
    ) throws(KeyError) -> MintedCertificate {
        let key = try KeyHandle.generate(template.curve)
        let (made, failure) = withCleanErrorQueue { () -> (Certificate?, OpenSSLError?) in
            let made = CertificateBuilder.build(template, key: key, issuer: issuer)
            return (made, made == nil ? .draining("make a certificate") : nil)
        }
        guard let made else { throw .openSSL(failure ?? OpenSSLError(operation: "make a certificate", reasons: [])) }
        return MintedCertificate(certificate: made, key: key, der: made.der)
    }
}

private enum CertificateBuilder {
    static func build(
        _ template: CertificateTemplate, key: KeyHandle, issuer: MintedCertificate?
    ) -> Certificate? {
        guard let pointer = X509_new() else { return nil }
        let made = Certificate(takingOwnershipOf: pointer)
        guard X509_set_version(pointer, 2) == 1, setSerial(pointer), setSubject(pointer, template.commonName),
            X509_set_issuer_name(pointer, X509_get_subject_name(issuer?.certificate.pointer ?? pointer)) == 1,
            X509_set_pubkey(pointer, key.pointer) == 1,
            ASN1_TIME_set(X509_getm_notBefore(pointer), time_t(template.notBefore.seconds)) != nil,
            ASN1_TIME_set(X509_getm_notAfter(pointer), time_t(template.notAfter.seconds)) != nil,
            addExtensions(pointer, template, issuer: issuer?.certificate.pointer ?? pointer)
        else { return nil }
        let signer = issuer?.key ?? key
        // As Apple does: SHA-384 under a P-384 key.
        let digest = signer.curve == .p384 ? EVP_sha384() : EVP_sha256()
        return X509_sign(pointer, signer.pointer, digest) > 0 ? made : nil
    }

    private static func setSerial(_ certificate: OpaquePointer) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 8)
        guard RAND_bytes(&bytes, Int32(bytes.count)) == 1 else { return false }
        bytes[0] = bytes[0] & 0x7F | 0x40  // positive and of full length
        guard let number = BN_bin2bn(bytes, Int32(bytes.count), nil) else { return false }
        defer { BN_free(number) }
        return BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nil
    }

    private static func setSubject(_ certificate: OpaquePointer, _ commonName: String) -> Bool {
        let name = X509_get_subject_name(certificate)
        return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, -1, -1, 0) == 1
    }

    private static func addExtensions(
        _ certificate: OpaquePointer, _ template: CertificateTemplate, issuer: OpaquePointer
    ) -> Bool {
        var extensions: [(nid: Int32, value: String)] = []
        if let constraints = template.basicConstraints {
            extensions.append((NID_basic_constraints, "critical,\(constraints)"))
        }
        if let usage = template.keyUsage { extensions.append((NID_key_usage, "critical,\(usage)")) }
        if template.hasKeyIdentifiers {
            // The subject's first: a self-signed certificate's authority identifier is read from it.
            extensions.append((NID_subject_key_identifier, "hash"))
            extensions.append((NID_authority_key_identifier, "keyid"))
        }
        return extensions.allSatisfy { add(certificate, nid: $0.nid, value: $0.value, issuer: issuer) }
            && template.markers.allSatisfy { addMarker(certificate, $0) }
    }

    private static func add(_ certificate: OpaquePointer, nid: Int32, value: String, issuer: OpaquePointer) -> Bool {
        var context = X509V3_CTX()
        teller_X509V3_set_ctx_nodb(&context)
        X509V3_set_ctx(&context, issuer, certificate, nil, nil, 0)
        guard let made = X509V3_EXT_conf_nid(nil, &context, nid, value) else { return false }
        defer { X509_EXTENSION_free(made) }
        return X509_add_ext(certificate, made, -1) == 1
    }

    private static func addMarker(_ certificate: OpaquePointer, _ oid: String) -> Bool {
        guard let object = ObjectIdentifierHandle(oid), let value = ASN1_OCTET_STRING_new() else { return false }
        defer { ASN1_OCTET_STRING_free(value) }
        let null: [UInt8] = [0x05, 0x00]
        guard ASN1_OCTET_STRING_set(value, null, Int32(null.count)) == 1,
            let made = X509_EXTENSION_create_by_OBJ(nil, object.pointer, 0, value)
        else { return false }
        defer { X509_EXTENSION_free(made) }
        return X509_add_ext(certificate, made, -1) == 1
    }
}

/// Leaf, intermediate and root with the leaf's key: signs as Apple does, for the emulator and the tests.
public struct MintedChain: Sendable {
    /// The root, self-signed.
    public let root: MintedCertificate
    /// Issued by the root.
    public let intermediate: MintedCertificate
    /// Issued by the intermediate.
    public let leaf: MintedCertificate
    private let key: ES256Key
    /// The base64url header segment: the same for every object, so it is made once.
    private let headerSegment: [UInt8]

    /// A genuine-looking chain around a moment.
    public static func make(around now: UnixMilliseconds) throws(KeyError) -> MintedChain {
        let root = try MintedCertificate.selfSigned(.root(around: now))
        let intermediate = try root.issue(.intermediate(around: now))
        return try MintedChain(
            root: root, intermediate: intermediate, leaf: intermediate.issue(.leaf(around: now)))
    }

    /// Any three certificates, consistent or not.
    public init(
        root: MintedCertificate, intermediate: MintedCertificate, leaf: MintedCertificate
    ) throws(KeyError) {
        self.root = root
        self.intermediate = intermediate
        self.leaf = leaf
        key = try leaf.signingKey()
        let header = Self.header(x5c: [leaf.der, intermediate.der, root.der])
        headerSegment = header.withUnsafeBytes { Base64Alphabet.url.encode($0) }
    }

    /// The same root and intermediate with another leaf.
    public func replacingLeaf(_ template: CertificateTemplate) throws(KeyError) -> MintedChain {
        try MintedChain(root: root, intermediate: intermediate, leaf: intermediate.issue(template))
    }

    /// Only this chain's root.
    public var trustedRoots: TrustedRoots { TrustedRoots(digests: [Digest.sha256(root.der)]) }

    /// A header with these certificates, leaf first.
    public static func header(x5c: [[UInt8]], algorithm: String = "ES256") -> [UInt8] {
        let certificates = x5c.map { "\"\(Base64.encode($0))\"" }.joined(separator: ",")
        return Array(#"{"alg":"\#(algorithm)","x5c":[\#(certificates)]}"#.utf8)
    }

    /// A compact JWS over the payload with the chain in `x5c`.
    public func sign(_ payload: [UInt8]) throws(OpenSSLError) -> String {
        var text = headerSegment
        text.reserveCapacity(headerSegment.count + payload.count * 4 / 3 + 100)
        text.append(UInt8(ascii: "."))
        text.append(contentsOf: payload.withUnsafeBytes { Base64Alphabet.url.encode($0) })
        let signature = try key.signature(of: text)
        text.append(UInt8(ascii: "."))
        text.append(contentsOf: signature.withUnsafeBytes { Base64Alphabet.url.encode($0) })
        return String(decoding: text, as: UTF8.self)
    }
}
