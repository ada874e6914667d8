import Commerce
import HTTP
import ServiceRuntime
import Signing

/// What Apple said to Get Transaction Info.
enum AppleAnswer {
    /// The transaction, freshly signed by Apple; its signature is still to be checked.
    case signedTransaction([UInt8])
    /// Anything else, with the delay Apple asked for.
    case failed(AppleErrorClass, retryAfter: Duration?)
}

/// The App Store Server API, as far as it is used: one GET with a self-made token.
///
/// [Get Transaction Info](https://developer.apple.com/documentation/appstoreserverapi/get-transaction-info).
@LoopActor
final class AppleServerAPI {
    /// Life of a token, as in Apple's own client; Apple refuses more than 60 minutes.
    private static let tokenSeconds: Int64 = 300
    /// A token is replaced this long before it ends, so that none ends on the way.
    private static let tokenMarginSeconds: Int64 = 60
    private static let path = "/inApps/v1/transactions/"

    /// One token per app, as it names the bundle id.
    private struct Token {
        let headers: [(String, String)]
        let end: UnixMilliseconds
    }

    private let prefixes: [StoreEnvironment: String]
    private let apiKey: AppleConfiguration.APIKey
    private let signingKey: ES256Key
    private let endpoint: StoreEndpoint
    private let clock: WallClock
    private let limits: VerificationLimits
    private var tokens: [String: Token] = [:]

    init(
        _ configuration: AppleConfiguration, key: AppleConfiguration.APIKey, endpoint: StoreEndpoint,
        limits: VerificationLimits, clock: WallClock
    ) throws(KeyError) {
        prefixes = [
            .production: StoreURL.base(configuration.productionURL) + Self.path,
            .sandbox: StoreURL.base(configuration.sandboxURL) + Self.path,
        ]
        apiKey = key
        signingKey = try ES256Key(pem: key.privateKeyPEM.text)
        self.endpoint = endpoint
        self.limits = limits
        self.clock = clock
    }

    /// Asks one environment for a transaction of one of our apps.
    func transaction(
        _ id: TransactionID, of bundleID: String, in environment: StoreEnvironment
    ) async -> AppleAnswer {
        guard let headers = headers(for: bundleID) else {
            endpoint.count(AppleErrorClass.ourConfiguration.label, status: 0, detail: "token_not_signed")
            return .failed(.ourConfiguration, retryAfter: nil)
        }
        let request = OutgoingRequest(
            .get, prefixes[environment, default: ""] + StoreURL.escaped(id.rawValue), headers: headers,
            deadline: limits.callDeadline, answerBytesMax: limits.answerBytesMax)
        guard let answer = await endpoint.send(request) else { return .failed(.retrySoon, retryAfter: nil) }
        guard (200...299).contains(answer.status) else { return failure(answer, environment: environment) }
        guard let body = try? JSONView.parse(answer.body),
            let signed = try? body.required("signedTransactionInfo").utf8(maxBytes: Limits.signedTransactionBytesMax)
        else {
            endpoint.count("unusable", status: answer.status)
            return .failed(.retrySoon, retryAfter: nil)
        }
        endpoint.countSuccess()
        return .signedTransaction(signed)
    }

    private func failure(_ answer: HTTPAnswer, environment: StoreEnvironment) -> AppleAnswer {
        // Apple documents a JSON error object, except for 401, which is plain text.
        let code = (try? JSONView.parse(answer.body)).flatMap { try? $0.wireInteger("errorCode") }
        let errorClass = AppleErrorClass(status: answer.status, errorCode: code, environment: environment)
        endpoint.count(errorClass.label, status: answer.status, detail: code.map(String.init) ?? "")
        let retryAfter = StoreEndpoint.retryAfter(answer, now: clock.now)
        return .failed(errorClass, retryAfter: retryAfter)
    }

    private func headers(for bundleID: String) -> [(String, String)]? {
        let now = clock.now
        if let token = tokens[bundleID], now < token.end { return token.headers }
        var claims = JSONWriter()
        claims.object { claims in
            claims.member("iss", apiKey.issuerID)
            claims.member("iat", now.seconds)
            claims.member("exp", now.seconds + Self.tokenSeconds)
            claims.member("aud", "appstoreconnect-v1")
            claims.member("bid", bundleID)
        }
        guard let token = try? JWT.mint(claims: claims.bytes, keyID: apiKey.keyID, key: signingKey) else { return nil }
        let headers = [("Authorization", "Bearer " + token), ("Accept", "application/json")]
        let end = UnixMilliseconds(seconds: now.seconds + Self.tokenSeconds - Self.tokenMarginSeconds)
        tokens[bundleID] = Token(headers: headers, end: end)
        return headers
    }
}
