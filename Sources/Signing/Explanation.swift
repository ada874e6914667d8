public import ServiceRuntime

/// One check of a signed object and how it went, for `teller verify`.
public struct SignedDataCheck: Sendable, Equatable {
    /// How a check went.
    public enum Outcome: String, Sendable {
        /// The check held.
        case passed
        /// The object was refused here.
        case failed
        /// Nothing is known, because an earlier check failed.
        case notReached = "not reached"
    }

    /// Which check.
    public let checkpoint: SignedDataCheckpoint
    /// How it went.
    public let outcome: Outcome
    /// What was found, or why it failed.
    public let detail: String
}

/// What is known about one certificate of a chain, whether or not it is trusted.
public struct CertificateSummary: Sendable, Equatable {
    /// The subject in the form of RFC 2253.
    public let subject: String
    /// The issuer in the form of RFC 2253.
    public let issuer: String
    /// SHA-256 of the DER in lower-case hexadecimal.
    public let sha256: String
    /// Valid from (inclusive) to (exclusive), UNIX seconds.
    public let validSeconds: Range<Int64>?
}

/// Everything that can be said about a signed object.
public struct SignedDataExplanation {
    /// All checks in their order; at most one has failed.
    public let checks: [SignedDataCheck]
    /// Why the object was refused; nil when it is verified.
    public let error: SignedDataError?
    /// The certificates of `x5c` that could be parsed, leaf first.
    ///
    /// Not to be trusted when `error` is set.
    public let certificates: [CertificateSummary]
    /// The header, when it is a JSON object.
    public let header: JSONView?
    /// The payload, when it is a JSON object.
    ///
    /// Not to be trusted when `error` is set.
    public let payload: JSONView?

    /// Whether every check passed.
    public var isVerified: Bool { error == nil }
}

extension SignedDataVerifier {
    /// Runs every check without the cache and says how each one went.
    ///
    /// It asks the same code that judges real receipts, so that the explanation cannot disagree with the verdict.
    public func explain(_ jws: String, now: UnixMilliseconds) -> SignedDataExplanation {
        let judge = SignedDataVerifier(roots: roots, chainCacheMax: 0, bytesMax: bytesMax)
        var failure: SignedDataError?
        do throws(SignedDataError) {
            _ = try judge.verify(jws, now: now)
        } catch {
            failure = error
        }
        var text = jws
        let found = text.withUTF8 { Findings(UnsafeRawBufferPointer($0), bytesMax: bytesMax) }
        return SignedDataExplanation(
            checks: Self.checks(failure, found), error: failure, certificates: found.certificates,
            header: found.header, payload: found.payload)
    }

    private static func checks(_ failure: SignedDataError?, _ found: Findings) -> [SignedDataCheck] {
        var isReached = true
        return SignedDataCheckpoint.allCases.map { checkpoint in
            if let failure, failure.checkpoint == checkpoint {
                isReached = false
                return SignedDataCheck(checkpoint: checkpoint, outcome: .failed, detail: failure.explanation)
            }
            // OpenSSL looks at dates while it walks the path, so an expired certificate leaves the rest unwalked.
            guard isReached, !(checkpoint == .path && failure == .expiredAtSigning) else {
                return SignedDataCheck(checkpoint: checkpoint, outcome: .notReached, detail: "an earlier check failed")
            }
            return SignedDataCheck(checkpoint: checkpoint, outcome: .passed, detail: found.detail(of: checkpoint))
        }
    }
}

/// What an object says about itself, collected without judging.
private struct Findings {
    let bytes: Int
    var header: JSONView?
    var payload: JSONView?
    var certificates: [CertificateSummary] = []

    init(_ jws: UnsafeRawBufferPointer, bytesMax: Int) {
        bytes = jws.count
        guard jws.count <= bytesMax, let segments = try? CompactSegments(jws) else { return }
        header = (try? SignedDataHeader(segments.header))?.json
        payload = Base64Alphabet.url.decode(segments.payload).flatMap { try? JSONView.parse($0) }
        if payload?.kind != .object { payload = nil }
        for element in (try? header?["x5c"]?.elements())?.prefix(3) ?? [] {
            guard let der = (try? element.string()).flatMap({ Base64.decode($0) }),
                let certificate = Certificate(der: der)
            else { continue }
            certificates.append(
                CertificateSummary(
                    subject: certificate.subject, issuer: certificate.issuer,
                    sha256: Digest.hex(Digest.sha256(der)), validSeconds: certificate.validSeconds))
        }
    }

    /// What a passed check found.
    ///
    /// Only called for objects that got that far, so what it reads is there.
    func detail(of checkpoint: SignedDataCheckpoint) -> String {
        switch checkpoint {
        case .size: "\(bytes) bytes"
        case .compactForm: "three segments in base64url"
        case .header, .payload: "a JSON object"
        case .algorithm: "ES256"
        case .chainLength: "3 certificates"
        case .certificates: certificates.map(\.subject).joined(separator: " / ")
        case .root: "SHA-256 \(certificates.last?.sha256 ?? "")"
        case .signedDate: "not in the future"
        case .path: "leaf, intermediate and root"
        case .validity: "all three were valid when it was signed"
        case .leafMarker: AppleMarker.receiptSigning
        case .intermediateMarker: AppleMarker.developerRelations
        case .leafKey: "P-256"
        case .signature: "by the leaf's key"
        }
    }
}
