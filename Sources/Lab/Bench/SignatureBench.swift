import Glibc
public import ServiceRuntime
import Signing

/// Measures how many of Apple's signed transactions one processor verifies when it knows the certificates already.
///
/// To be held against `openssl speed ecdsap256`, which does nothing but the signature: the difference is Base64, JSON and
/// the look into the cache of chains. Counted is processor time, not time on the wall, so that a busy machine matters less.
public struct SignatureBench: Sendable {
    /// Transactions verified.
    public let verified: Int
    /// Processor time that took.
    public let cpu: Duration
    /// Size of each, in bytes.
    public let bytes: Int

    private static let transactions = 256

    /// Verifies for a while.
    ///
    /// - Parameter seconds: processor time, more or less.
    /// - Returns: what was done in that time.
    /// - Throws: when a genuine transaction does not verify.
    public static func run(for seconds: Double) throws -> SignatureBench {
        let now = UnixMilliseconds.now
        let chain = try MintedChain.make(around: now)
        let verifier = SignedDataVerifier(roots: chain.trustedRoots)
        let signed = try (0..<transactions).map { Array(try chain.sign(transaction($0, now)).utf8) }
        // The first one validates the chain, which is not what is measured.
        _ = try verifier.verify(signed[0], now: now)
        let begin = cpuSeconds
        var verified = 0
        while cpuSeconds - begin < seconds {
            for jws in signed { _ = try verifier.verify(jws, now: now) }
            verified += signed.count
        }
        return SignatureBench(verified: verified, cpu: .seconds(cpuSeconds - begin), bytes: signed[0].count)
    }

    /// Verifications in a second of processor time.
    public var perSecond: Double { cpu > .zero ? Double(verified) / cpu.inSeconds : 0 }

    /// A line for people.
    public var text: String {
        "\(LabText.fixed(perSecond, 0)) verifications/s of \(bytes) bytes, chain cached "
            + "(\(LabText.fixed(1_000_000 / max(perSecond, 1), 1)) µs each)"
    }

    /// Writes the result as one JSON object's members.
    public func write(to json: inout JSONWriter) {
        json.member("verified", verified)
        json.member("cpuSeconds", cpu.inSeconds)
        json.member("bytes", bytes)
        json.member("perSecond", perSecond)
    }

    private static func transaction(_ number: Int, _ now: UnixMilliseconds) -> [UInt8] {
        var json = JSONWriter(capacity: 1024)
        json.object { json in
            json.member("transactionId", "\(2_000_000_900_000_000 + number)")
            json.member("originalTransactionId", "\(2_000_000_900_000_000 + number)")
            json.member("bundleId", "com.mygame")
            json.member("productId", "com.mygame.gems.500")
            json.member("purchaseDate", now.value)
            json.member("originalPurchaseDate", now.value)
            json.member("quantity", 1)
            json.member("type", "Consumable")
            json.member("appAccountToken", "3c9e6a1d-0c7b-5f6e-9a43-2f1b7d9e8a10")
            json.member("inAppOwnershipType", "PURCHASED")
            json.member("signedDate", now.value)
            json.member("environment", "Production")
            json.member("transactionReason", "PURCHASE")
            json.member("storefront", "DEU")
            json.member("storefrontId", "143443")
            json.member("price", 4990)
            json.member("currency", "EUR")
        }
        return json.bytes
    }

    private static var cpuSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}
