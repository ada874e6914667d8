import ServiceRuntime

/// Every purchase of both stores, in order: what the endpoints answer from, and what an audit is held against.
///
/// It lives in memory only. An emulator that is started again is a new pair of stores with new keys.
@LoopActor
final class PurchaseBook {
    /// More than any load test buys; a run that exceeds it fails loudly instead of eating the machine's memory.
    nonisolated static let purchasesMax = 5_000_000

    private(set) var records: [PurchaseRecord] = []
    private var places: [String: Int] = [:]
    private let clock: WallClock
    private let acknowledgeWithin: Duration
    private var nextTransaction: Int64
    private var dice = Dice.unpredictable

    init(clock: WallClock, acknowledgeWithin: Duration) {
        self.clock = clock
        self.acknowledgeWithin = acknowledgeWithin
        // Ids of two runs must not meet in a Redis that outlives the emulator: runs start at different milliseconds.
        nextTransaction = 2_000_000_000_000_000 + clock.now.value % 1_000_000_000_000 * 100
    }

    func removeAll() {
        records = []
        places = [:]
    }

    func add(_ request: PurchaseRequest) throws(EmulatorError) -> PurchaseRecord {
        guard records.count < Self.purchasesMax else { throw .tooManyPurchases }
        let now = clock.now
        let id: String
        switch request.store {
        case .apple:
            guard request.state == .purchased || request.state == .refunded else {
                throw .impossible("Apple has no pending purchases: nothing reaches a server before it is paid")
            }
            id = String(nextTransaction)
            nextTransaction += 1
        case .google: id = GoogleText.purchaseToken(using: &dice)
        }
        var record = PurchaseRecord(
            id: id, serial: records.count, request: request, purchasedAt: request.purchasedAt ?? now,
            state: request.state, couldBeCredited: request.state == .purchased)
        if request.store == .google, !request.isPromo, request.state != .pending {
            record.orderID = GoogleText.orderID(using: &dice)
        }
        if request.state == .refunded { record.refundedAt = now }
        places[id] = records.count
        records.append(record)
        return record
    }

    func find(_ id: String, in store: EmulatedStore) -> PurchaseRecord? {
        guard let place = places[id], records[place].store == store else { return nil }
        voidIfNeverAcknowledged(place)
        return records[place]
    }

    /// Counts a read; nil while the store pretends not to know the purchase yet.
    func read(_ id: String, in store: EmulatedStore) -> PurchaseRecord? {
        guard let place = places[id], records[place].store == store else { return nil }
        voidIfNeverAcknowledged(place)
        records[place].reads += 1
        return records[place].reads > records[place].request.unknownReads ? records[place] : nil
    }

    func update(_ id: String, _ change: (inout PurchaseRecord) -> Void) {
        if let place = places[id] { change(&records[place]) }
    }

    /// Pays, cancels or refunds.
    func move(_ id: String, to state: PurchaseState) throws(EmulatorError) {
        guard let place = places[id] else { throw .unknownPurchase }
        let old = records[place].state
        switch (old, state) {
        case (.pending, .purchased):
            records[place].couldBeCredited = true
            if !records[place].request.isPromo { records[place].orderID = GoogleText.orderID(using: &dice) }
        case (.pending, .cancelled): break
        case (.purchased, .refunded): records[place].refundedAt = clock.now
        case _ where old == state: return
        default: throw .impossible("a purchase that is \(old.rawValue) cannot become \(state.rawValue)")
        }
        records[place].state = state
    }

    /// "Not acknowledged within three days: automatic refund and revocation", looked at when somebody asks.
    private func voidIfNeverAcknowledged(_ place: Int) {
        let record = records[place]
        guard record.store == .google, record.state == .purchased, !record.isAcknowledged,
            clock.now - record.purchasedAt > acknowledgeWithin
        else { return }
        records[place].state = .refunded
        records[place].refundedAt = clock.now
    }
}

/// Why the emulator cannot do what it was asked for through its control API.
public enum EmulatorError: Error, Equatable, Sendable, CustomStringConvertible {
    /// It only ever listens on loopback: its receipts are worth money to whoever trusts its root.
    case notLoopback
    /// No purchase has this id.
    case unknownPurchase
    /// The stores themselves could not do this.
    case impossible(String)
    /// More purchases than one emulator keeps.
    case tooManyPurchases
    /// OpenSSL or the file system failed.
    case failed(String)

    /// One sentence.
    public var description: String {
        switch self {
        case .notLoopback: "the emulator listens on loopback addresses only"
        case .unknownPurchase: "no purchase has this id"
        case .impossible(let reason): reason
        case .tooManyPurchases: "the emulator keeps at most \(PurchaseBook.purchasesMax) purchases"
        case .failed(let reason): reason
        }
    }
}
