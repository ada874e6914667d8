/// What became of a submission so far: the value behind the key that clients poll.
public struct SubmissionStatus: Sendable, Equatable {
    /// Where a submission stands.
    public enum State: String, Sendable, Hashable, CaseIterable {
        /// Queued, being verified, or waiting to be tried again.
        ///
        /// With `credits` when some purchases of a legacy app receipt are in the wallet and at least one is still open.
        case pending
        /// In the wallet, all of it; the only state in which a client may give up its receipt for a credit.
        ///
        /// Never changes again.
        case credited
        /// Refused for good, for `reason`.
        ///
        /// Looked at again when the receipt is handed in again. With `credits` when other purchases of a legacy app
        /// receipt are in the wallet, or the whole receipt is (`isAllInWallet`).
        case rejected
        /// Bought but not paid at the store.
        case awaitingPayment = "awaiting-payment"
        /// Given up by the machine; a human must look.
        ///
        /// With `credits` as above.
        case dead
    }

    /// One purchase of the submission that is in the wallet.
    public struct Credit: Sendable, Equatable {
        /// What a client may know the purchase by (`VerifiedPurchase.displayID`).
        public var transactionID: String
        /// The product of the catalogue.
        public var product: ProductID
        /// What was added.
        public var grants: Grants
        /// The position of the ledger entry, from 1.
        public var position: Int64
        /// It was in the wallet before this submission; nothing was added now.
        public var wasAlreadyCredited: Bool

        /// States a credit.
        public init(
            transactionID: String, product: ProductID, grants: Grants, position: Int64, wasAlreadyCredited: Bool
        ) {
            self.transactionID = transactionID
            self.product = product
            self.grants = grants
            self.position = position
            self.wasAlreadyCredited = wasAlreadyCredited
        }
    }

    /// Where it stands.
    public var state: State
    /// Whose submission it is; a poll for somebody else's is answered like one that does not exist.
    public var player: PlayerID
    /// Why it is refused.
    public var reason: RejectionReason?
    /// When to ask again, in milliseconds.
    public var retryAfterMilliseconds: Int64?
    /// What a pending submission waits for, or a dead one has waited for.
    public var cause: IndeterminateCause?
    /// The product that a human has to look for in the catalogue, when that is the cause.
    public var awaitedProduct: String?
    /// What is in the wallet; a legacy receipt may hold several purchases.
    public var credits: [Credit]
    /// Of a rejected one: nothing in its receipt is left to be credited, so the client may finish it.
    ///
    /// Said by who has seen the whole receipt, never concluded from `credits`.
    public var isAllInWallet: Bool

    /// States what became of a submission.
    public init(
        _ state: State, player: PlayerID, reason: RejectionReason? = nil, retryAfterMilliseconds: Int64? = nil,
        cause: IndeterminateCause? = nil, awaitedProduct: String? = nil, credits: [Credit] = [],
        isAllInWallet: Bool = false
    ) {
        self.state = state
        self.player = player
        self.reason = reason
        self.retryAfterMilliseconds = retryAfterMilliseconds
        self.cause = cause
        self.awaitedProduct = awaitedProduct
        self.credits = credits
        self.isAllInWallet = isAllInWallet
    }

    /// Everything in it was in the wallet before; nothing was added for this submission.
    public var isAlreadyProcessed: Bool { !credits.isEmpty && credits.allSatisfy(\.wasAlreadyCredited) }
}
