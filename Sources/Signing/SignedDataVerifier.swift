import COpenSSL
import Glibc
public import ServiceRuntime

/// A payload that Apple signed.
///
/// Only `SignedDataVerifier` makes one.
///
/// Whose app it is for, which environment and whether it is a transaction at all is still to be checked: the same
/// certificates sign transactions, renewal infos, app transactions and notifications.
public struct VerifiedPayload {
    /// The payload, an object.
    public let json: JSONView
    /// The payload's bytes as signed.
    public let bytes: [UInt8]
    /// `signedDate` (of an app transaction `receiptCreationDate`), nil when it has neither.
    public let signedDate: UnixMilliseconds?

    init(json: JSONView, bytes: [UInt8], signedDate: UnixMilliseconds?) {
        self.json = json
        self.bytes = bytes
        self.signedDate = signedDate
    }
}

/// Checks Apple's signed objects (StoreKit 2 transactions, server notifications, API answers) without any call.
///
/// The certificates are judged at the payload's own `signedDate`: a transaction signed by a leaf that has expired
/// since is still good, and phones do present such. A date in the future is refused. What is *not* decided here is
/// whether an old signature is good enough for a new purchase; that is what Get Transaction Info is for.
///
/// Not thread-safe: use one per isolation domain. It has no other state than a cache, which is rebuilt after a crash.
public final class SignedDataVerifier {
    /// A transaction is 5.5 to 6.5 KB; nothing above this is looked at.
    public static let transactionBytesMax = 32 * 1024
    /// How far `signedDate` may be ahead of our clock.
    public static let clockSkewMax: Duration = .seconds(300)

    /// The roots that may end a chain.
    public let roots: TrustedRoots
    let bytesMax: Int
    private var cache: ChainCache

    /// How many certificate paths were validated in full, that is, not found in the cache.
    public private(set) var pathValidations = 0
    /// How many chains the cache holds.
    public var cachedChains: Int { cache.count }

    /// A verifier for objects of at most `bytesMax` bytes that remembers at most `chainCacheMax` chains.
    public init(
        roots: TrustedRoots = .apple, chainCacheMax: Int = 32, bytesMax: Int = SignedDataVerifier.transactionBytesMax
    ) {
        self.roots = roots
        self.bytesMax = bytesMax
        cache = ChainCache(entriesMax: chainCacheMax)
    }

    /// The payload, if it was signed under one of the roots; `now` decides only what is in the future.
    public func verify(_ jws: String, now: UnixMilliseconds) throws(SignedDataError) -> VerifiedPayload {
        var jws = jws
        let result = jws.withUTF8 { verify(UnsafeRawBufferPointer($0), now: now) }
        return try result.get()
    }

    /// The payload, if it was signed under one of the roots; `now` decides only what is in the future.
    public func verify(_ jws: [UInt8], now: UnixMilliseconds) throws(SignedDataError) -> VerifiedPayload {
        let result = jws.withUnsafeBytes { verify($0, now: now) }
        return try result.get()
    }

    private func verify(
        _ jws: UnsafeRawBufferPointer, now: UnixMilliseconds
    ) -> Result<VerifiedPayload, SignedDataError> {
        Result { () throws(SignedDataError) in try check(jws, now: now) }
    }

    private func check(
        _ jws: UnsafeRawBufferPointer, now: UnixMilliseconds
    ) throws(SignedDataError) -> VerifiedPayload {
        guard jws.count <= bytesMax else { throw .tooLarge }
        let segments = try CompactSegments(jws)
        // A header seen before was decoded, parsed and pinned then; its bytes are the same.
        let known = cache.chain(header: segments.header)
        let header = try known == nil ? SignedDataHeader(segments.header) : nil
        let payload = try SignedPayload(segments.payload)
        let unverified = try header?.chain(roots: roots)
        if let signed = payload.signedDate {
            guard signed <= now + Self.clockSkewMax else { throw .signedInFuture }
        }
        let seconds = (payload.signedDate ?? now).seconds
        let chain: ValidatedChain
        if let known { chain = known } else { chain = try validated(unverified, atSeconds: seconds) }
        guard chain.validSeconds.contains(seconds) else { throw .expiredAtSigning }
        guard chain.isValid(rawSignature: segments.signature, digest: Digest.sha256(segments.signedText)) else {
            throw .badSignature
        }
        if known == nil { cache.insert(chain, header: Array(segments.header)) }
        return VerifiedPayload(json: payload.json, bytes: payload.bytes, signedDate: payload.signedDate)
    }

    private func validated(
        _ unverified: UnverifiedChain?, atSeconds seconds: Int64
    ) throws(SignedDataError) -> ValidatedChain {
        guard let unverified else { throw .chainLength(nil) }
        if let cached = cache.chain(digest: unverified.digest) { return cached }
        pathValidations += 1
        let chain = try ValidatedChain(unverified, atSeconds: seconds)
        cache.insert(chain, digest: unverified.digest)
        return chain
    }
}

/// The three parts of a compact JWS (RFC 7515 §7.1), split but not believed.
struct CompactSegments {
    let header: UnsafeRawBufferPointer
    let payload: UnsafeRawBufferPointer
    let signature: [UInt8]
    /// `header.payload`, what the signature is about.
    let signedText: UnsafeRawBufferPointer

    /// The segments point into `jws` and are valid only as long as it is.
    init(_ jws: UnsafeRawBufferPointer) throws(SignedDataError) {
        guard let first = Self.dot(in: jws, from: 0), let second = Self.dot(in: jws, from: first + 1),
            Self.dot(in: jws, from: second + 1) == nil
        else { throw .notCompactJWS }
        header = UnsafeRawBufferPointer(rebasing: jws[..<first])
        payload = UnsafeRawBufferPointer(rebasing: jws[(first + 1)..<second])
        signedText = UnsafeRawBufferPointer(rebasing: jws[..<second])
        guard let signature = Base64Alphabet.url.decode(UnsafeRawBufferPointer(rebasing: jws[(second + 1)...])) else {
            throw .badBase64
        }
        self.signature = signature
    }

    /// The place of the next dot; memchr, because a loop over 6 KB would be felt next to one P-256 verification.
    private static func dot(in jws: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = jws.baseAddress, start < jws.count,
            let found = memchr(base + start, 0x2E, jws.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }
}

/// The protected header of an Apple JWS.
struct SignedDataHeader {
    let json: JSONView

    init(_ segment: UnsafeRawBufferPointer) throws(SignedDataError) {
        guard let bytes = Base64Alphabet.url.decode(segment) else { throw .badBase64 }
        guard let json = try? JSONView.parse(bytes), json.kind == .object else { throw .badHeader }
        self.json = json
    }

    /// Checks `alg`, decodes `x5c` and pins its root.
    func chain(roots: TrustedRoots) throws(SignedDataError) -> UnverifiedChain {
        // Exactly ES256, before any key is looked at: "none", or HS256 with the public key as secret, is how JWS
        // verifiers have been fooled. RFC 7515 §4.1.11: a `crit` we do not understand must be refused, too.
        guard json["crit"] == nil, let algorithm = try? json["alg"]?.string(maxBytes: 16), algorithm == "ES256" else {
            throw .algorithmNotAllowed
        }
        guard let elements = try? json["x5c"]?.elements() else { throw .chainLength(nil) }
        guard elements.count == 3 else { throw .chainLength(elements.count) }
        var texts: [String] = []
        for (index, element) in elements.enumerated() {
            guard let text = try? element.string() else { throw .badCertificate(index) }
            texts.append(text)
        }
        return try UnverifiedChain(x5c: texts, roots: roots)
    }
}

/// The payload of an Apple JWS and the date at which its certificates are judged.
struct SignedPayload {
    /// 9999-12-31T23:59:59Z, the last moment X.509 can express.
    private static let millisecondsMax: Int64 = 253_402_300_799_000

    let bytes: [UInt8]
    let json: JSONView
    let signedDate: UnixMilliseconds?

    init(_ segment: UnsafeRawBufferPointer) throws(SignedDataError) {
        guard let bytes = Base64Alphabet.url.decode(segment) else { throw .badBase64 }
        guard let json = try? JSONView.parse(bytes), json.kind == .object else { throw .payloadNotJSON }
        self.bytes = bytes
        self.json = json
        guard let date = json["signedDate"] ?? json["receiptCreationDate"] else {
            signedDate = nil
            return
        }
        // Whole milliseconds from Apple; Xcode writes fractions, which an error about its chain describes better.
        guard let value = try? date.double(), value >= 0, value <= Double(Self.millisecondsMax) else {
            throw .badSignedDate
        }
        signedDate = UnixMilliseconds((try? date.int64()) ?? Int64(value))
    }
}
