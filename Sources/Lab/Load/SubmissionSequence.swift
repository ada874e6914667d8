import Commerce
import Signing

/// SplitMix64: small, seeded, good enough to throw dice with.
struct SeededDice: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// What one receipt of a run will be.
enum SubmissionDraft: Sendable, Equatable {
    /// Something has to be bought for it.
    case order(SubmissionKind, PurchaseOrder, productID: String)
    /// It repeats an earlier one, chosen when its time comes.
    case duplicate
    /// As above, handed in by this player or, were that the buyer, by the other.
    case replay(by: String, or: String)
}

/// The receipts of a run, one after the other, as the seed decides.
struct SubmissionSequence: Sendable {
    private let mix: LoadPlan.Mix
    private let players: Int
    private let playerPrefix: String
    private let onSale: [String: [(product: String, storeProduct: String)]]
    private var dice: SeededDice
    private var isFirst = true

    init(_ plan: LoadPlan) throws(LabError) {
        mix = plan.mix
        players = plan.players
        playerPrefix = plan.playerPrefix
        dice = SeededDice(seed: plan.seed)
        var onSale: [String: [(product: String, storeProduct: String)]] = [:]
        // Only what can be bought again and again: a second purchase of a non-consumable is not a purchase.
        for product in plan.catalogue.products where product.type == .consumable {
            for (store, id) in product.storeProductIDs {
                onSale[store.rawValue, default: []].append((product.id.rawValue, id.rawValue))
            }
        }
        for (store, share) in [("apple", mix.apple), ("google", 1 - mix.apple + mix.pending)]
        where share > 0 && onSale[store] == nil {
            throw .impossiblePlan("the catalogue has no consumable product for \(store)")
        }
        self.onSale = onSale
    }

    mutating func next() -> SubmissionDraft {
        // The first is honest and bound to its buyer, so that there is always something to repeat.
        if isFirst {
            isFirst = false
            return order(.purchase, isBound: true)
        }
        var roll = Double.random(in: 0..<1, using: &dice)
        func hits(_ share: Double) -> Bool {
            defer { roll -= share }
            return roll < share && roll >= 0
        }
        if hits(mix.duplicates) { return .duplicate }
        if hits(mix.replays) {
            let first = Int.random(in: 0..<players, using: &dice)
            return .replay(by: name(first), or: name((first + 1) % players))
        }
        if hits(mix.forged) { return forgery() }
        if hits(mix.pending) { return order(.pending, store: "google") }
        return order(.purchase, isBound: Bool.random(using: &dice))
    }

    private func name(_ number: Int) -> String { playerPrefix + String(number) }

    private mutating func order(
        _ kind: SubmissionKind, store named: String? = nil, isBound: Bool = false
    ) -> SubmissionDraft {
        let byChance = Double.random(in: 0..<1, using: &dice) < mix.apple ? "apple" : "google"
        let store = named ?? byChance
        let player = name(Int.random(in: 0..<players, using: &dice))
        let choices = onSale[store] ?? []
        let choice = choices[Int.random(in: 0..<choices.count, using: &dice)]
        var order = PurchaseOrder(store: store, player: player, storeProductID: choice.storeProduct)
        order.isPending = kind == .pending
        if isBound { order.accountToken = UUIDv5.make(namespace: AccountBinding.namespace, name: player) }
        return .order(kind, order, productID: choice.product)
    }

    private static let forgers = [
        "rogue-root", "changed-payload", "developer-certificate", "none", "expired-when-signed",
    ]

    /// Receipts that are refused at the first look.
    ///
    /// A made-up purchase token is not among them: Google's "not found" must be waited out, for minutes, because it may
    /// mean "not yet".
    private mutating func forgery() -> SubmissionDraft {
        guard case .order(_, var order, let product) = order(.forged) else { return .duplicate }
        let forger = Int.random(in: 0...Self.forgers.count, using: &dice)
        if order.store == "apple", forger < Self.forgers.count {
            order.signer = Self.forgers[forger]
        } else {
            order.appID = "com.othergame"
        }
        return .order(.forged, order, productID: product)
    }
}
