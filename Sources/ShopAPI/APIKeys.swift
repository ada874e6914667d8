import ServiceRuntime
import Signing

/// One key of a caller, as configured; the secret itself is known to the caller alone.
///
/// On the wire: `Authorization: Bearer <id>.<secret>`. To rotate, add a second key with another id, move the callers,
/// and remove the first.
public struct APIKey: Sendable {
    /// What a key may be used for.
    public enum Scope: String, Sendable, Hashable, CaseIterable {
        /// Hand in receipts and poll them.
        case submit
        /// Read wallets and histories.
        case read
    }

    /// Names the caller in logs and metrics; not secret.
    public var id: String
    /// SHA-256 of the secret, 32 bytes.
    public var secretSHA256: [UInt8]
    /// What it may be used for.
    public var scopes: Set<Scope>
    /// Not valid from this moment on, in seconds since 1970 UTC; nil for ever.
    public var notAfterSeconds: Int64?
    /// Most requests a second, in the long run; twice as many may come at once.
    public var requestsPerSecondMax: Int
    /// Most requests that may wait for a result at the same time.
    public var waitsMax: Int

    /// A key with generous caps: they protect Teller from a broken caller, not from a busy one.
    public init(
        id: String, secretSHA256: [UInt8], scopes: Set<Scope>, notAfterSeconds: Int64? = nil,
        requestsPerSecondMax: Int = 100_000, waitsMax: Int = 20_000
    ) {
        precondition(requestsPerSecondMax > 0, "a key may make at least one request a second")
        self.id = id
        self.secretSHA256 = secretSHA256
        self.scopes = scopes
        self.notAfterSeconds = notAfterSeconds
        self.requestsPerSecondMax = requestsPerSecondMax
        self.waitsMax = waitsMax
    }
}

/// A caller that proved its key, with what it uses up.
@LoopActor
final class Caller {
    let key: APIKey
    /// Requests that wait for a result.
    var waits = 0
    private var tokens: Double
    private var refilledAt = ContinuousClock.now

    init(_ key: APIKey) {
        self.key = key
        tokens = Double(2 * key.requestsPerSecondMax)
    }

    /// Takes one request from the bucket; else the time until there is one.
    func admit(now: ContinuousClock.Instant = .now) -> Duration? {
        let rate = Double(key.requestsPerSecondMax)
        tokens = min(2 * rate, tokens + rate * (refilledAt.duration(to: now) / .seconds(1)))
        refilledAt = now
        guard tokens < 1 else {
            tokens -= 1
            return nil
        }
        return .seconds((1 - tokens) / rate)
    }
}

/// Finds the caller of a request.
@LoopActor
final class KeyRing {
    private var callers: [Substring: Caller] = [:]

    init(_ keys: [APIKey]) {
        for key in keys { callers[Substring(key.id)] = Caller(key) }
    }

    /// Checks an `Authorization` header and a scope, and takes one request from the caller's rate.
    func admit(authorization: String?, for scope: APIKey.Scope) throws(Refusal) -> Caller {
        guard let authorization, authorization.utf8.count <= 512, Self.isBearer(authorization) else {
            throw Refusal(.unauthenticated, detail: "Send Authorization: Bearer <key id>.<secret>.")
        }
        let credentials = authorization.dropFirst("Bearer ".count)
        guard let dot = credentials.firstIndex(of: "."), let caller = callers[credentials[..<dot]],
            constantTimeEquals(Digest.sha256(Array(credentials[dot...].dropFirst().utf8)), caller.key.secretSHA256)
        else { throw Refusal(.unauthenticated, detail: "The key is not known.") }
        if let end = caller.key.notAfterSeconds, UnixMilliseconds.now.value / 1000 >= end {
            throw Refusal(.unauthenticated, detail: "The key has expired.")
        }
        guard caller.key.scopes.contains(scope) else {
            throw Refusal(.forbidden, detail: "The key lacks the scope \(scope.rawValue).")
        }
        if let wait = caller.admit() {
            throw Refusal(.tooManyRequests, detail: "The key's rate is used up.", retryAfter: wait)
        }
        return caller
    }

    /// "It uses a case-insensitive token to identify the authentication scheme" (RFC 9110 §11.1).
    private static func isBearer(_ authorization: String) -> Bool {
        authorization.hasPrefix("Bearer ") || authorization.prefix(7).lowercased() == "bearer "
    }
}
