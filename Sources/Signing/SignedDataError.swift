/// The checks of a signed object, in the order in which they are made.
///
/// Steps 1–10 of Apple's verification order; what the payload says about app and environment is checked by whoever
/// knows the configuration.
public enum SignedDataCheckpoint: String, CaseIterable, Sendable {
    /// Not longer than the cap.
    case size
    /// Three segments in base64url.
    case compactForm = "compact-form"
    /// The header is a JSON object.
    case header
    /// The payload is a JSON object with a usable date.
    case payload
    /// `alg` is ES256.
    case algorithm
    /// `x5c` has three entries.
    case chainLength = "chain-length"
    /// Each entry is a certificate.
    case certificates
    /// The third is a trusted root.
    case root
    /// `signedDate` is not in the future.
    case signedDate = "signed-date"
    /// Leaf, intermediate and root form a valid path.
    case path
    /// All three were valid at `signedDate`.
    case validity
    /// The leaf carries Apple's receipt signing marker.
    case leafMarker = "leaf-marker"
    /// The intermediate carries Apple's WWDR marker.
    case intermediateMarker = "intermediate-marker"
    /// The leaf's key is on P-256.
    case leafKey = "leaf-key"
    /// The leaf's key signed exactly this header and payload.
    case signature
}

/// Why a signed object was refused.
///
/// Final: the same bytes will never be accepted by the same roots.
///
/// The exception is `signedInFuture`, which passes with time. No case quotes the object.
public enum SignedDataError: Error, Equatable, Sendable {
    /// Longer than the cap.
    case tooLarge
    /// Not three segments.
    case notCompactJWS
    /// A segment is not strict base64url.
    case badBase64
    /// The header is not a JSON object.
    case badHeader
    /// The payload is not a JSON object.
    case payloadNotJSON
    /// `signedDate` (or `receiptCreationDate`) is not a time in milliseconds.
    case badSignedDate
    /// `alg` is not `ES256`.
    case algorithmNotAllowed
    /// `x5c` is not an array of three texts; the count, when it is an array.
    case chainLength(Int?)
    /// An entry of `x5c` (from 0) is not a certificate in strict base64.
    case badCertificate(Int)
    /// The third certificate is not a trusted root; its SHA-256.
    case untrustedRoot(sha256: String)
    /// `signedDate` is more than five minutes ahead of the clock.
    case signedInFuture
    /// A certificate that signs another is not a certificate authority.
    case notACertificateAuthority
    /// The path is broken in another way; OpenSSL's words.
    case pathInvalid(String)
    /// A certificate was not valid at `signedDate`.
    case expiredAtSigning
    /// The leaf lacks 1.2.840.113635.100.6.11.1: some other certificate under Apple's root.
    case leafMarkerMissing
    /// The intermediate lacks 1.2.840.113635.100.6.2.1.
    case intermediateMarkerMissing
    /// The leaf's key is not on P-256.
    case badKey
    /// The signature is not the leaf's over this header and payload.
    case badSignature

    /// Which check failed.
    public var checkpoint: SignedDataCheckpoint {
        switch self {
        case .tooLarge: .size
        case .notCompactJWS, .badBase64: .compactForm
        case .badHeader: .header
        case .payloadNotJSON, .badSignedDate: .payload
        case .algorithmNotAllowed: .algorithm
        case .chainLength: .chainLength
        case .badCertificate: .certificates
        case .untrustedRoot: .root
        case .signedInFuture: .signedDate
        case .notACertificateAuthority, .pathInvalid: .path
        case .expiredAtSigning: .validity
        case .leafMarkerMissing: .leafMarker
        case .intermediateMarkerMissing: .intermediateMarker
        case .badKey: .leafKey
        case .badSignature: .signature
        }
    }

    /// One sentence for a person.
    public var explanation: String {
        switch self {
        case .tooLarge: "longer than any genuine signed object"
        case .notCompactJWS: "not a compact JWS: it must have exactly three segments"
        case .badBase64: "a segment is not base64url"
        case .badHeader: "the header is not a JSON object"
        case .payloadNotJSON: "the payload is not a JSON object"
        case .badSignedDate: "the payload's signing date is not a time in milliseconds"
        case .algorithmNotAllowed: "the header's alg is not ES256, the only one Apple uses"
        case .chainLength(let count?): "x5c has \(count) entries instead of 3"
        case .chainLength(nil): "the header has no x5c array of certificates"
        case .badCertificate(let index): "x5c[\(index)] is not a certificate in base64"
        case .untrustedRoot(let digest): "x5c[2] is not a trusted root (SHA-256 \(digest))"
        case .signedInFuture: "signed more than five minutes in the future"
        case .notACertificateAuthority: "a certificate that signs another one is not a certificate authority"
        case .pathInvalid(let reason): "the certificates do not form a valid path: \(reason)"
        case .expiredAtSigning: "a certificate was not valid when this was signed"
        case .leafMarkerMissing: "the leaf is not a receipt signing certificate (no 1.2.840.113635.100.6.11.1)"
        case .intermediateMarkerMissing:
            "the intermediate is not Apple's developer relations authority (no 1.2.840.113635.100.6.2.1)"
        case .badKey: "the leaf's key is not on the curve P-256"
        case .badSignature: "the signature does not belong to this header and payload"
        }
    }
}
