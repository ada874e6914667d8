public import Commerce
import HTTP
import ServiceRuntime

/// What the game client must do with the store's transaction.
public enum ClientAction: String, Sendable {
    /// Finish (Apple) or forget (Google) it: all that could be done is done.
    case finish
    /// Keep it unfinished and ask again later.
    case keep
    /// Send the same request again, after `Retry-After` if given.
    case retry
    /// Keep it and send the player to support: asking again will not help.
    case contactSupport = "contact-support"
}

/// Every reason why a request is not answered with a credit: the one table of reason → HTTP status → client action.
///
/// The slugs are stable and part of the API. Only `refunded`, `cancelled` and `purchase-expired` let a client finish
/// its transaction without a credit: there the money is not with the store any more. Everything that may be our own
/// mistake, or can be put right by a human, keeps the transaction alive, unless nothing in it is left to be credited
/// (``action(isAllInWallet:)``).
public enum Reason: Sendable, Equatable {
    case malformedRequest, unauthenticated, forbidden, unknownSubmission, bodyTooLarge, unsupportedMediaType
    case unknownProduct, productNotInStore, tooManyRequests, queueFull, temporarilyUnavailable, parked
    case rejected(RejectionReason)
    /// What the server says before the shop is asked, besides ``malformedRequest`` and ``bodyTooLarge``.
    case notFound, methodNotAllowed, stopping

    /// What the server says before the shop is asked.
    static let ofServer: [Reason] = [.malformedRequest, .bodyTooLarge, .notFound, .methodNotAllowed, .stopping]

    /// The slug, the HTTP status, what the client must do, and the title for people.
    public var row: (slug: String, status: Int, action: ClientAction, title: String) {
        switch self {
        case .malformedRequest: ("malformed-request", 400, .keep, "The request cannot be read")
        case .unauthenticated: ("unauthenticated", 401, .keep, "No valid API key")
        case .forbidden: ("forbidden", 403, .keep, "The API key may not do this")
        case .notFound: ("not-found", 404, .keep, "There is nothing at this path")
        case .methodNotAllowed: ("method-not-allowed", 405, .keep, "The method is not allowed here")
        case .unknownSubmission: ("unknown-submission", 404, .retry, "No such submission")
        case .bodyTooLarge: ("body-too-large", 413, .keep, "The request body is too large")
        case .unsupportedMediaType: ("unsupported-media-type", 415, .keep, "The body must be application/json")
        case .unknownProduct: ("unknown-product", 422, .keep, "The product is not in the catalogue")
        case .productNotInStore: ("product-not-in-store", 422, .keep, "The product is not sold in this store")
        case .tooManyRequests: ("too-many-requests", 429, .retry, "Too many requests")
        case .queueFull: ("queue-full", 503, .retry, "The queue is full")
        case .temporarilyUnavailable: ("temporarily-unavailable", 503, .retry, "Teller cannot do this right now")
        case .stopping: ("stopping", 503, .retry, "The server is stopping")
        case .parked: ("parked", 503, .contactSupport, "The receipt waits for a human")
        case .rejected(let reason): Self.row(reason)
        }
    }

    /// What the client must do, of which the row has only the ordinary case.
    ///
    /// Whoever names the wrong product hears of it the same way before and after the purchase is credited. But then there
    /// is nothing left to keep it for: a purchase in the wallet is finished, or the store would offer it for ever.
    func action(isAllInWallet: Bool) -> ClientAction {
        self == .rejected(.productMismatch) && isAllInWallet ? .finish : row.action
    }

    private static func row(
        _ reason: RejectionReason
    ) -> (slug: String, status: Int, action: ClientAction, title: String) {
        let (status, action, title): (Int, ClientAction, String) =
            switch reason {
            case .malformedReceipt: (422, .contactSupport, "The receipt is malformed")
            case .invalidSignature: (422, .contactSupport, "The receipt's signature is not valid")
            case .wrongApp: (422, .contactSupport, "The receipt belongs to another app")
            case .wrongEnvironment: (422, .contactSupport, "The receipt comes from an environment that is not accepted")
            case .sandboxNotAllowed: (422, .keep, "Sandbox purchases are not credited to this player")
            case .unknownPurchase: (422, .contactSupport, "The store does not know the purchase")
            case .refunded: (422, .finish, "The purchase was refunded")
            case .cancelled: (422, .finish, "The purchase was cancelled before it was paid")
            case .productMismatch: (422, .contactSupport, "The receipt is for another product")
            case .belongsToAnotherPlayer: (409, .contactSupport, "The purchase belongs to another player")
            case .familyShared: (422, .contactSupport, "A shared purchase grants no currency")
            case .unsupportedProduct: (422, .keep, "Products of this type cannot be credited yet")
            case .noPurchaseInReceipt: (422, .contactSupport, "Nothing was bought in this receipt")
            case .purchaseExpired: (422, .finish, "The purchase has expired at the store")
            case .balanceTooLarge: (422, .contactSupport, "The balance cannot grow further")
            }
        return (reason.rawValue, status, action, title)
    }
}

/// A request that is answered with a problem (RFC 9457) instead of a result.
struct Refusal: Error {
    let reason: Reason
    let detail: String
    let retryAfter: Duration?
    let submission: SubmissionID?
    let inWallet: InWallet?
    let isAllInWallet: Bool

    init(
        _ reason: Reason, detail: String, retryAfter: Duration? = nil, submission: SubmissionID? = nil,
        inWallet: InWallet? = nil, isAllInWallet: Bool = false
    ) {
        self.reason = reason
        self.detail = detail
        self.retryAfter = retryAfter
        self.submission = submission
        self.inWallet = inWallet
        self.isAllInWallet = isAllInWallet
    }

    var response: OutgoingResponse {
        let row = reason.row
        var problem = Problem(status: row.status, reason: row.slug, title: row.title, detail: detail) {
            $0.member("clientAction", reason.action(isAllInWallet: isAllInWallet).rawValue)
            $0.member("submissionId", submission?.rawValue)
            inWallet?.write(to: &$0)
        }
        // "A server generating a 401 response MUST send a WWW-Authenticate header field" (RFC 9110 §11.6.1).
        if row.status == 401 { problem.headers.append(("WWW-Authenticate", "Bearer")) }
        if let retryAfter { problem.headers.append(("Retry-After", "\(Int(retryAfter.inSeconds.rounded(.up)))")) }
        return problem.response
    }
}
