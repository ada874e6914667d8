import Commerce
import HTTP
import ServiceRuntime
import Signing

/// The access token for Google's API: one renewal in flight however many calls want it, renewed before it ends.
///
/// [OAuth 2.0 for service accounts](https://developers.google.com/identity/protocols/oauth2/service-account). The token
/// lives in memory only; a restart costs one request.
@LoopActor
final class GoogleAccess {
    /// What a call sends, or why it cannot be made.
    enum Headers {
        case ready([(String, String)], generation: Int)
        case failed(GoogleVerifier.Failure)
    }

    private static let scope = "https://www.googleapis.com/auth/androidpublisher"
    private static let grantType = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
    private static let assertionSeconds: Int64 = 3600
    /// Renewal begins this long before the end, while the old token still serves.
    private static let renewalLead: Duration = .seconds(300)
    /// After a failed renewal nobody asks again for this long: thousands of waiting receipts are one problem.
    private static let failurePause: Duration = .seconds(1)
    /// After a fresh token was refused, too, no further one is asked for during this time.
    private static let refusalPause: Duration = .seconds(5)
    private static let tokenBytesMax = 8 << 10
    /// Believed life of a token: an answer cannot make us keep one for ever, nor renew in a loop.
    private static let lifeSecondsRange: ClosedRange<Int64> = 30...86_400

    private let account: GoogleConfiguration.ServiceAccount?
    private let key: RS256Key?
    private let endpoint: StoreEndpoint
    private let clock: WallClock
    private let limits: VerificationLimits

    private var headers: [(String, String)] = []
    private var generation = 0
    private var renewAt = UnixMilliseconds(0)
    private var end = UnixMilliseconds(0)
    private var renewal: Task<Void, Never>?
    private var failure: GoogleVerifier.Failure?
    private var pausedUntil = UnixMilliseconds(0)

    init(
        _ credentials: GoogleConfiguration.Credentials, endpoint: StoreEndpoint, limits: VerificationLimits,
        clock: WallClock
    ) throws(KeyError) {
        self.endpoint = endpoint
        self.clock = clock
        self.limits = limits
        switch credentials {
        case .accessToken(let token):
            account = nil
            key = nil
            headers = Self.headers(token.text)
            renewAt = UnixMilliseconds(.max)
            end = UnixMilliseconds(.max)
        case .serviceAccount(let account):
            self.account = account
            key = try RS256Key(pem: account.privateKeyPEM.text)
        }
    }

    /// Headers with a token that works for a while yet; nil when a look at the clock is not enough.
    ///
    /// Apart from ``current()`` because nearly every call ends here, and a call that may wait costs more than it.
    var valid: Headers? { clock.now < renewAt ? .ready(headers, generation: generation) : nil }

    /// Headers with a token that should work now.
    func current() async -> Headers {
        if let valid { return valid }
        let now = clock.now
        if now < end {
            // Early: the old token serves, and this call does not wait for the new one.
            if now >= pausedUntil { startRenewal() }
            return .ready(headers, generation: generation)
        }
        return await renewed()
    }

    /// Headers after Google refused the token of `generation`.
    ///
    /// Nil when a new one cannot help: a fixed token, or one that was itself just renewed for this reason.
    func afterRefusal(of generation: Int) async -> Headers? {
        guard account != nil else { return nil }
        // Somebody else's refusal has led to a new token already.
        if generation != self.generation, clock.now < end { return await current() }
        if renewal == nil {
            guard clock.now >= pausedUntil else { return nil }
            end = UnixMilliseconds(0)
            renewAt = UnixMilliseconds(0)
        }
        return await renewed()
    }

    /// Notes that a token that was just renewed is refused as well: more of them will not help.
    ///
    /// - Returns: when to try again; nil when no waiting will help.
    func noteRefusedAgain() -> Duration? {
        guard account != nil else { return nil }
        pausedUntil = max(pausedUntil, clock.now + Self.refusalPause)
        return Self.refusalPause
    }

    private func renewed() async -> Headers {
        // Twice at most: the token that this call waited for may have been refused to another one, and be under renewal
        // again, before this call goes on.
        for _ in 0..<2 {
            if renewal == nil {
                if let failure, clock.now < pausedUntil { return .failed(failure) }
                startRenewal()
            }
            await renewal?.value
            if clock.now < end { return .ready(headers, generation: generation) }
            if renewal == nil { break }
        }
        return .failed(failure ?? GoogleVerifier.Failure(.retrySoon))
    }

    /// The renewal is a task of its own, since no single caller's cancellation may take the token from all others, and an
    /// early one has no caller that waits.
    ///
    /// It stays on the loop, ends within the deadline of its one call, and is given up with the client it sends by.
    private func startRenewal() {
        guard renewal == nil, let account, let key else { return }
        renewal = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable [weak self] in
            await self?.renew(account, key)
            self?.renewal = nil
        }
    }

    private func renew(_ account: GoogleConfiguration.ServiceAccount, _ key: RS256Key) async {
        guard let body = requestBody(account, key) else {
            endpoint.count(GoogleErrorClass.ourConfiguration.label, status: 0, detail: "assertion_not_signed")
            return fail(.ourConfiguration)
        }
        let request = OutgoingRequest(
            .post, account.tokenURL,
            headers: [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")],
            body: body, deadline: limits.callDeadline, answerBytesMax: limits.answerBytesMax)
        guard let answer = await endpoint.send(request) else { return fail(.retrySoon) }
        let json = try? JSONView.parse(answer.body)
        guard (200...299).contains(answer.status) else { return refused(answer, json) }
        guard let json, let token = try? json.string("access_token", maxBytes: Self.tokenBytesMax),
            !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            // "expires_in" is a number, but was seen as a string.
            let seconds = try? json.wireInteger("expires_in") ?? 3599
        else {
            endpoint.count("unusable", status: answer.status)
            return fail(.retrySoon)
        }
        endpoint.countSuccess()
        let life = min(max(seconds, Self.lifeSecondsRange.lowerBound), Self.lifeSecondsRange.upperBound)
        let now = clock.now
        headers = Self.headers(token)
        generation += 1
        failure = nil
        end = now + .seconds(life)
        // Short-lived tokens (emulators) are renewed at half of their life instead.
        renewAt = now + max(.seconds(life) - Self.renewalLead, .seconds(life) / 2)
    }

    private func refused(_ answer: HTTPAnswer, _ json: JSONView?) {
        let error = json?.wireNote("error") ?? ""
        let errorClass = GoogleErrorClass(
            tokenStatus: answer.status, error: error, description: json?.wireNote("error_description") ?? "")
        endpoint.count(errorClass.label, status: answer.status, detail: error)
        fail(errorClass, retryAfter: StoreEndpoint.retryAfter(answer, now: clock.now))
    }

    private func fail(_ errorClass: GoogleErrorClass, retryAfter: Duration? = nil) {
        failure = GoogleVerifier.Failure(errorClass, retryAfter: retryAfter)
        pausedUntil = clock.now + Self.failurePause
    }

    private func requestBody(_ account: GoogleConfiguration.ServiceAccount, _ key: RS256Key) -> [UInt8]? {
        let now = clock.now.seconds
        var claims = JSONWriter()
        claims.object { claims in
            claims.member("iss", account.clientEmail)
            claims.member("scope", Self.scope)
            claims.member("aud", account.tokenURL)
            claims.member("iat", now)
            claims.member("exp", now + Self.assertionSeconds)
        }
        guard let assertion = try? JWT.mint(claims: claims.bytes, keyID: account.privateKeyID, key: key) else {
            return nil
        }
        return Array("grant_type=\(Self.grantType)&assertion=\(assertion)".utf8)
    }

    private static func headers(_ token: String) -> [(String, String)] {
        [("Authorization", "Bearer " + token), ("Accept", "application/json")]
    }
}
