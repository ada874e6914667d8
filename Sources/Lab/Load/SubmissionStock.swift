import ServiceRuntime

/// The receipts of a run, bought before their time comes.
///
/// The stores sell in bulk before the clock starts, so that signing does not compete with the system under test. Only a
/// closed loop that runs for a time, and so cannot know how many it will need, buys more while it runs.
@LoopActor
final class SubmissionStock {
    /// What lies ready: something bought, or a draft that needs nothing.
    private enum Item {
        case bought(LoadPurchase)
        case draft(SubmissionDraft)
    }

    private let emulator: EmulatorClient
    private var sequence: SubmissionSequence
    private var dice: SeededDice
    private var items: [Item] = []
    private var nextIndex = 0
    private var heads: [[UInt8]: [UInt8]] = [:]
    private var refill: Task<Void, Never>?
    private let refillTo: Int

    private var recent: [LoadPurchase] = []
    private var recentPosition = 0
    private var lastBound: LoadPurchase?
    private var creditedRecently: Set<String> = []
    private static let recentMax = 2048

    /// Why no more could be bought while the run was on.
    private(set) var failure: (any Error)?
    /// Purchases made so far.
    private(set) var bought = 0

    init(_ plan: LoadPlan, emulator: EmulatorClient, refillTo: Int) throws(LabError) {
        self.emulator = emulator
        self.refillTo = refillTo
        sequence = try SubmissionSequence(plan)
        dice = SeededDice(seed: ~plan.seed)
    }

    var left: Int { items.count - nextIndex }

    /// Has `count` more receipts ready when it returns.
    func prepare(_ count: Int, progress: @LoopActor (Int) -> Void = { _ in }) async throws {
        var missing = count
        while missing > 0 {
            let drafts = (0..<min(missing, EmulatorClient.buyMax)).map { _ in sequence.next() }
            var orders: [PurchaseOrder] = []
            for case .order(_, let order, _) in drafts { orders.append(order) }
            let receipts = orders.isEmpty ? [] : try await emulator.buy(orders)
            guard receipts.count == orders.count else { throw LabError.emulator("sold another number than ordered") }
            bought += receipts.count
            var next = receipts.makeIterator()
            items.reserveCapacity(items.count + drafts.count)
            for draft in drafts {
                guard case .order(let kind, let order, let product) = draft, let receipt = next.next() else {
                    items.append(.draft(draft))
                    continue
                }
                items.append(.bought(purchase(kind, order, product, receipt)))
            }
            missing -= drafts.count
            progress(count - missing)
        }
    }

    private func purchase(
        _ kind: SubmissionKind, _ order: PurchaseOrder, _ productID: String, _ bought: BoughtPurchase
    ) -> LoadPurchase {
        LoadPurchase(
            id: bought.id, kind: kind, store: order.store, player: order.player, productID: productID,
            isBound: order.accountToken != nil, receipt: stored(bought.receipt))
    }

    private func stored(_ receipt: String) -> StoredReceipt {
        let bytes = Array(receipt.utf8)
        guard let dot = bytes.firstIndex(of: UInt8(ascii: ".")), dot > 500 else {
            return StoredReceipt(head: [], tail: bytes)
        }
        let head = Array(bytes[...dot])
        if let known = heads[head] { return StoredReceipt(head: known, tail: Array(bytes[(dot + 1)...])) }
        heads[head] = head
        return StoredReceipt(head: head, tail: Array(bytes[(dot + 1)...]))
    }

    /// The next receipt to hand in; nil when there is none.
    func next() -> Submission? {
        if refillTo > 0, left < refillTo / 2 { buyMore() }
        guard nextIndex < items.count else { return nil }
        let item = items[nextIndex]
        // What was handed in is only kept as long as it may be repeated.
        items[nextIndex] = .draft(.duplicate)
        nextIndex += 1
        if nextIndex == 4096 {
            items.removeFirst(nextIndex)
            nextIndex = 0
        }
        switch item {
        case .bought(let purchase):
            if purchase.kind == .purchase { remember(purchase) }
            return Submission(kind: purchase.kind, purchase: purchase, player: purchase.player)
        case .draft(.replay(let thief, let other)):
            let victim = victim()
            return victim.map {
                Submission(kind: .replay, purchase: $0, player: thief == $0.player ? other : thief)
            }
        case .draft:
            let original = recent.randomElement(using: &dice)
            return original.map { Submission(kind: .duplicate, purchase: $0, player: $0.player) }
        }
    }

    /// To be told of every purchase that a client heard to be credited: from then on anybody may replay it.
    func credited(_ purchase: LoadPurchase) { if !purchase.isBound { creditedRecently.insert(purchase.id) } }

    private func remember(_ purchase: LoadPurchase) {
        if purchase.isBound { lastBound = purchase }
        guard recent.count == Self.recentMax else { return recent.append(purchase) }
        creditedRecently.remove(recent[recentPosition].id)
        recent[recentPosition] = purchase
        recentPosition = (recentPosition + 1) % Self.recentMax
    }

    /// A purchase that is the buyer's beyond doubt: an unbound one that is not credited yet would, rightly, become the
    /// thief's, were he faster.
    private func victim() -> LoadPurchase? {
        for _ in 0..<8 {
            guard let choice = recent.randomElement(using: &dice) else { break }
            if choice.isBound || creditedRecently.contains(choice.id) { return choice }
        }
        return lastBound
    }

    private func buyMore() {
        guard refill == nil, failure == nil else { return }
        refill = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            do {
                try await self.prepare(EmulatorClient.buyMax)
            } catch {
                self.failure = error
            }
            self.refill = nil
        }
    }

    /// Waits until nothing is being bought any more.
    func stop() async { await refill?.value }
}
