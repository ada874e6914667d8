public import Commerce
import ServiceRuntime

/// What an answer of Google other than "here it is" means for the purchase: the one table for Google's errors.
///
/// Only answers in Google's own error format that speak about the *token* may end in a refusal. Our rights, our package
/// name and our quota are our problem: the purchase waits. Unknown reasons are judged by status and never refuse.
public enum GoogleErrorClass: Sendable, Equatable {
    /// The purchase is refused for good.
    case final(RejectionReason)
    /// Nobody knows the token: tokens of the last seconds may still appear; look again, then refuse.
    case unknownPurchase
    /// The access token was not accepted: get a new one, ask once more.
    case renewAccessToken
    /// A duty met a purchase in another state than expected: read the purchase, then decide.
    case lookAgain
    /// Google has a problem; the same question may work in a moment.
    case retrySoon
    /// Our quota is used up.
    case retryAfter
    /// Nothing will work until somebody corrects our keys, rights or names.
    case ourConfiguration

    /// Whether the answer would be the same for a good purchase in another of our apps.
    var isAboutAnotherApp: Bool {
        switch self {
        case .unknownPurchase, .final(.malformedReceipt), .final(.wrongApp), .final(.productMismatch): true
        default: false
        }
    }

    /// Label of the metrics.
    public var label: String {
        switch self {
        case .final: "final"
        case .unknownPurchase: "unknown_purchase"
        case .renewAccessToken: "renew_access_token"
        case .lookAgain: "look_again"
        case .retrySoon: "retry_soon"
        case .retryAfter: "retry_after"
        case .ourConfiguration: "our_configuration"
        }
    }
}

// MARK: - Google Play Developer API

/// The parts of Google's error object (`{"error":{"code","message","errors":[{"reason"}],"status"}}`) that decide.
struct GoogleErrorBody: Sendable, Equatable {
    /// `errors[0].reason`, for example `purchaseTokenNotFound`; empty when missing.
    var reason = ""
    /// `status`, for example `PERMISSION_DENIED`; newer endpoints only.
    var status = ""
    /// Whether the message begins with "Quota exceeded": the only sign in the 403 form of a used-up quota.
    var isAboutQuota = false

    init(reason: String = "", status: String = "", isAboutQuota: Bool = false) {
        self.reason = reason
        self.status = status
        self.isAboutQuota = isAboutQuota
    }

    /// Nil unless `body` is Google's error object: a proxy's page says nothing about a purchase.
    init?(_ body: [UInt8]) {
        guard let document = try? JSONView.parse(body), let error = document["error"], error.kind == .object else {
            return nil
        }
        status = error.wireNote("status") ?? ""
        isAboutQuota = (error.wireNote("message", maxBytes: 4096) ?? "").hasPrefix("Quota exceeded")
        reason = (try? error["errors"]?.elements().first)?.wireNote("reason") ?? ""
    }
}

extension GoogleErrorClass {
    private static let quotaReasons: Set<String> = [
        "rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded",
    ]

    /// Class of a purchases.products answer that is not 2xx.
    ///
    /// - Parameters:
    ///   - status: HTTP status.
    ///   - body: Google's error object; nil when the answer was anything else.
    init(status: Int, body: GoogleErrorBody?) {
        switch status {
        case 400: self = body.map(Self.badRequest) ?? .ourConfiguration
        // "authError" is the documented reason, but a bare 401 says the same; only a missing *right* is another matter.
        case 401: self = body?.reason == "permissionDenied" ? .ourConfiguration : .renewAccessToken
        case 403:
            guard let body else {
                self = .ourConfiguration
                return
            }
            let isQuota =
                body.isAboutQuota || body.status == "RESOURCE_EXHAUSTED" || Self.quotaReasons.contains(body.reason)
            self = isQuota ? .retryAfter : .ourConfiguration
        case 404:
            // No JSON: a wrong base URL or a proxy. applicationNotFound: the package name is our configuration.
            guard let body else {
                self = .retrySoon
                return
            }
            self = body.reason == "applicationNotFound" ? .ourConfiguration : .unknownPurchase
        case 410: self = body == nil ? .retrySoon : .final(.purchaseExpired)
        case 429: self = .retryAfter
        case 408, 409, 500...599: self = .retrySoon
        case 400...499: self = .ourConfiguration
        default: self = .retrySoon
        }
    }

    private static func badRequest(_ body: GoogleErrorBody) -> GoogleErrorClass {
        switch body.reason {
        case "invalid": .final(.malformedReceipt)
        case "productNotOwnedByUser": .lookAgain
        case "purchaseTokenMismatch", "purchaseTokenDoesNotMatchProductId": .final(.productMismatch)
        case "purchaseTokenDoesNotMatchPackageName": .final(.wrongApp)
        default: .ourConfiguration
        }
    }
}

// MARK: - Token endpoint

extension GoogleErrorClass {
    private static let transientTokenErrors: Set<String> = [
        "internal_failure", "server_error", "temporarily_unavailable",
    ]

    /// Class of a token endpoint answer that is not usable.
    ///
    /// RFC 6749 section 5.2 names the codes; everything but a server's own trouble (`invalid_grant`, `invalid_client`,
    /// …) means that our key or clock is wrong.
    ///
    /// - Parameters:
    ///   - status: HTTP status.
    ///   - error: `error` of the JSON body, empty when missing.
    ///   - description: `error_description` of the JSON body, empty when missing.
    public init(tokenStatus status: Int, error: String, description: String) {
        if Self.transientTokenErrors.contains(error) || Self.transientTokenErrors.contains(description) {
            self = .retrySoon
            return
        }
        switch status {
        case 429: self = .retryAfter
        case 400...407, 409...499: self = .ourConfiguration
        default: self = .retrySoon
        }
    }
}
