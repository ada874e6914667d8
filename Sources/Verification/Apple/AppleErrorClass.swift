public import Commerce
import ServiceRuntime

/// What an answer of Apple other than "here it is" means for the purchase: the one table for Apple's errors.
///
/// Only codes that speak about the *purchase* may end in a refusal. A code that speaks about the *request* (a parameter
/// this endpoint should never have been sent, a wrong key, a foreign bundle id) is our mistake: the purchase waits and
/// somebody is told. Unknown codes are judged by their HTTP status and never refuse.
public enum AppleErrorClass: Sendable, Equatable {
    /// The purchase is refused for good.
    case final(RejectionReason)
    /// Nobody knows the id here: look in the other environment, then again later, then refuse.
    case unknownPurchase
    /// Ask the other environment (sandbox receipt at production, or the reverse).
    case otherEnvironment
    /// Malformed or a temporary problem, Apple does not say which: look a few times, then refuse.
    case ambiguous(RejectionReason)
    /// Apple has a problem; the same question may work in a moment.
    case retrySoon
    /// Apple has had too many questions; `Retry-After` says until when.
    case retryAfter
    /// Nothing will work until somebody corrects our keys, rights or requests.
    case ourConfiguration

    /// Label of the metrics.
    public var label: String {
        switch self {
        case .final: "final"
        case .unknownPurchase: "unknown_purchase"
        case .otherEnvironment: "other_environment"
        case .ambiguous: "ambiguous"
        case .retrySoon: "retry_soon"
        case .retryAfter: "retry_after"
        case .ourConfiguration: "our_configuration"
        }
    }
}

// MARK: - App Store Server API

extension AppleErrorClass {
    /// Classes of the error codes that Get Transaction Info can meaningfully send; see ``init(status:errorCode:environment:)``.
    private static let byErrorCode: [Int64: AppleErrorClass] = [
        4_000_006: .final(.malformedReceipt),  // InvalidTransactionId
        4_000_008: .final(.malformedReceipt),  // InvalidOriginalTransactionId
        4_000_048: .final(.malformedReceipt),  // AppTransactionIdNotSupported: the id of a download, not of a purchase
        4_040_001: .unknownPurchase,  // AccountNotFound
        4_040_002: .retrySoon,  // AccountNotFoundRetryable
        4_040_003: .ourConfiguration,  // AppNotFound: the bundle id comes from our configuration
        4_040_004: .retrySoon,  // AppNotFoundRetryable
        4_040_005: .unknownPurchase,  // OriginalTransactionIdNotFound
        4_040_006: .retrySoon,  // OriginalTransactionIdNotFoundRetryable
        4_040_010: .unknownPurchase,  // TransactionIdNotFound
        4_290_000: .retryAfter,  // RateLimitExceeded
        5_000_000: .retrySoon,  // GeneralInternal: "try again later" in the endpoint tables
        5_000_001: .retrySoon,  // GeneralInternalRetryable
    ]

    /// Class of an App Store Server API answer that is not 2xx.
    ///
    /// Message texts differ between Apple's own sources, so only the code counts.
    ///
    /// - Parameters:
    ///   - status: HTTP status.
    ///   - errorCode: `errorCode` of the JSON body; nil when the body is not Apple's error object.
    ///   - environment: where the question was asked. An app that was never released is answered a bare 401 in
    ///     production while the same key works in sandbox, so that 401 is worth one question there.
    public init(status: Int, errorCode: Int64?, environment: StoreEnvironment) {
        if let errorCode, let known = Self.byErrorCode[errorCode] {
            self = known
            return
        }
        switch status {
        case 401 where errorCode == nil && environment == .production: self = .otherEnvironment
        case 429: self = .retryAfter
        case 408, 425, 500...599: self = .retrySoon
        // Every other 4xx with or without a code: the request was wrong, and the request is ours. A 404 without a code
        // is a wrong base URL, not a statement about the purchase.
        case 400...499: self = .ourConfiguration
        // 1xx and 3xx never come from this API: something between us and Apple answered.
        default: self = .retrySoon
        }
    }
}

// MARK: - verifyReceipt

extension AppleErrorClass {
    /// Class of a verifyReceipt status; nil when the receipt in the answer is to be read (0, and 21006 "expired").
    ///
    /// - Parameters:
    ///   - status: `status` of the JSON body.
    ///   - isRetryable: `is_retryable` or `is-retryable`, where Apple sent one.
    /// - Returns: the class, or nil when the answer holds a receipt.
    public static func receiptStatus(_ status: Int64, isRetryable: Bool?) -> AppleErrorClass? {
        switch status {
        case 0, 21006: nil
        case 21000, 21001, 21004: .ourConfiguration  // not a POST; no longer sent; shared secret mismatch
        case 21002: isRetryable == true ? .retrySoon : .ambiguous(.malformedReceipt)
        case 21003: .final(.invalidSignature)
        case 21005, 21009: .retrySoon
        case 21007, 21008: .otherEnvironment
        case 21010: .final(.unknownPurchase)  // account not found or deleted
        case 21100...21199: isRetryable == false ? .final(.unknownPurchase) : .retrySoon
        default: .retrySoon
        }
    }
}
