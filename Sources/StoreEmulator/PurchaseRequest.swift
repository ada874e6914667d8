public import ServiceRuntime

/// Which of the two stores.
public enum EmulatedStore: String, Sendable, CaseIterable {
    /// The App Store.
    case apple
    /// Google Play.
    case google
}

/// Apple's two worlds; an id exists in one of them only.
public enum EmulatedEnvironment: String, Sendable, CaseIterable {
    /// Real money.
    case production = "Production"
    /// Testers, TestFlight and App Review.
    case sandbox = "Sandbox"
}

/// Where a purchase stands.
public enum PurchaseState: String, Sendable, CaseIterable {
    /// Paid.
    case purchased
    /// Google only: the buyer has chosen to pay at a shop counter, or a parent has to agree.
    case pending
    /// Google only: a pending payment that never came.
    case cancelled
    /// Paid, and paid back.
    case refunded
}

/// Who signs what the phone gets from Apple.
public enum ReceiptSigner: String, Sendable, CaseIterable {
    /// The emulator's receipt signing certificate.
    case genuine
    /// A genuine leaf that has expired since; it was valid at `signedDate`, so the receipt is good.
    case expiredLeaf = "expired-leaf"
    /// A leaf that had expired before `signedDate`.
    case expiredWhenSigned = "expired-when-signed"
    /// A self-made chain with both markers and a root of its own.
    case rogueRoot = "rogue-root"
    /// A certificate under the genuine root without the receipt signing marker.
    case developerCertificate = "developer-certificate"
    /// Genuine, but the payload was changed afterwards.
    case changedPayload = "changed-payload"
    /// `alg` none and an empty signature.
    case none

    /// Whether a verifier should believe it.
    var isGenuine: Bool { self == .genuine || self == .expiredLeaf }
}

/// What is bought, by whom, and everything that is unusual about it.
public struct PurchaseRequest: Sendable {
    /// The store.
    public var store: EmulatedStore
    /// Who buys: only for the ground truth, the stores do not know players.
    public var player: String
    /// The store's product id.
    public var storeProductID: String
    /// Apple's word for the type: `Consumable`, `Non-Consumable`, `Auto-Renewable Subscription` and so on.
    public var type = "Consumable"
    /// How many.
    public var quantity = 1
    /// `appAccountToken` or `obfuscatedExternalAccountId`.
    public var accountToken: String?
    /// Apple: which world.
    ///
    /// Google has only one.
    public var environment = EmulatedEnvironment.production
    /// Google: bought by a licence tester.
    public var isTest = false
    /// Google: redeemed with a promo code; such a purchase has no order id.
    public var isPromo = false
    /// Where the purchase stands from the beginning.
    public var state = PurchaseState.purchased
    /// Another app's bundle id or package name; nil for the emulator's own.
    public var appID: String?
    /// Apple: `PURCHASED`, `FAMILY_SHARED` or `ASSIGNED`.
    public var ownership = "PURCHASED"
    /// Apple: who signs the receipt on the phone.
    public var signer = ReceiptSigner.genuine
    /// Apple: the first transaction of which this is a restore; nil for a first purchase.
    public var originalTransactionID: String?
    /// How many reads are answered "not found" before the store knows its own purchase.
    public var unknownReads = 0
    /// When it was bought; nil for now.
    public var purchasedAt: UnixMilliseconds?
    /// Apple: total in thousandths of the currency unit.
    public var priceMilliunits: Int64? = 4990
    /// ISO 4217, with `priceMilliunits`.
    public var currency = "EUR"
    /// Apple's three-letter storefront; Google's `regionCode` is its first two letters.
    public var storefront = "DEU"

    /// An ordinary purchase of one piece.
    public init(store: EmulatedStore, player: String, storeProductID: String) {
        self.store = store
        self.player = player
        self.storeProductID = storeProductID
    }
}

/// Whether a purchase has to end up in a wallet.
public enum CreditDuty: String, Sendable {
    /// Paid for and not taken back: exactly once, in the wallet of its buyer.
    case must
    /// Once or not at all: sandbox and test purchases (policy decides), and what was refunded after it could be credited.
    case may
    /// Never.
    case mustNot = "must-not"
}

/// The ground truth about one purchase.
public struct PurchaseRecord: Sendable {
    /// Transaction id or purchase token; unique among all purchases of one emulator.
    public let id: String
    /// Place in the order of purchases, from 0.
    public let serial: Int
    /// What was asked for.
    public let request: PurchaseRequest
    /// When it was bought.
    public let purchasedAt: UnixMilliseconds
    /// Google's `GPA.…`; nil for Apple, promo codes and pending purchases.
    public internal(set) var orderID: String?
    /// Where it stands now.
    public internal(set) var state: PurchaseState
    /// Google: consumed.
    public internal(set) var isConsumed = false
    /// Google: acknowledged.
    public internal(set) var isAcknowledged = false
    /// When it was refunded.
    public internal(set) var refundedAt: UnixMilliseconds?
    /// How often the store was asked about it.
    public internal(set) var reads = 0
    /// Whether there was a time at which it could rightly be credited.
    var couldBeCredited: Bool

    /// The store.
    public var store: EmulatedStore { request.store }
    /// Apple: the first transaction of the chain; equal to `id` on a first purchase.
    public var originalTransactionID: String { request.originalTransactionID ?? id }

    /// Whether it has to end up in its buyer's wallet.
    public func duty(ownAppID: String) -> CreditDuty {
        let isOurs = (request.appID ?? ownAppID) == ownAppID
        guard isOurs, request.store == .google || request.signer.isGenuine else { return .mustNot }
        // Nobody paid for what a family member or an organisation shares.
        guard request.ownership == "PURCHASED" else { return .mustNot }
        switch state {
        case .pending, .cancelled: return .mustNot
        case .refunded: return couldBeCredited ? .may : .mustNot
        case .purchased: break
        }
        let isReal = request.store == .apple ? request.environment == .production : !request.isTest
        return isReal && ["Consumable", "Non-Consumable"].contains(request.type) ? .must : .may
    }
}
