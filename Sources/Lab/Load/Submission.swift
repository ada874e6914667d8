import Signing

/// The kinds of receipts that a run hands in.
public enum SubmissionKind: String, Sendable, CaseIterable {
    /// An honest purchase, for the first time.
    case purchase
    /// An honest purchase again, by the same player.
    case duplicate
    /// An honest purchase of one player, handed in by another.
    case replay
    /// A receipt that no store stands behind.
    case forged
    /// A purchase that is not paid.
    case pending
}

/// A receipt as it is kept until it is handed in.
///
/// The head of a signed transaction, some 4 kB, is the same for all of one certificate; sharing it makes 100,000
/// receipts fit into memory.
struct StoredReceipt: Sendable {
    let head: [UInt8]
    let tail: [UInt8]
    var count: Int { head.count + tail.count }
}

/// One thing bought at the emulator, as the load generator knows it.
final class LoadPurchase: Sendable {
    /// The store's name of it.
    let id: String
    let kind: SubmissionKind
    let store: String
    let player: String
    /// The catalogue's name of the product.
    let productID: String
    /// Whether the store's data name the player, so that nobody else's submission can ever come first.
    let isBound: Bool
    let receipt: StoredReceipt

    init(
        id: String, kind: SubmissionKind, store: String, player: String, productID: String, isBound: Bool,
        receipt: StoredReceipt
    ) {
        self.id = id
        self.kind = kind
        self.store = store
        self.player = player
        self.productID = productID
        self.isBound = isBound
        self.receipt = receipt
    }
}

/// A receipt on its way: a purchase, and who hands it in as what.
struct Submission: Sendable {
    let kind: SubmissionKind
    let purchase: LoadPurchase
    let player: String

    /// The body of `POST /shop/purchase`, which is also the job for the list.
    ///
    /// Nothing in it needs an escape: players and products come from the plan, receipts are base64url and dots.
    var body: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(purchase.receipt.count + 160)
        bytes.append(contentsOf: #"{"userId":""#.utf8)
        bytes.append(contentsOf: player.utf8)
        bytes.append(contentsOf: #"","productId":""#.utf8)
        bytes.append(contentsOf: purchase.productID.utf8)
        bytes.append(contentsOf: #"","receiptData":""#.utf8)
        bytes.append(contentsOf: purchase.receipt.head)
        bytes.append(contentsOf: purchase.receipt.tail)
        bytes.append(contentsOf: #""}"#.utf8)
        return bytes
    }

    /// The submission id by its documentation: partition, dash, half of the SHA-256 over length-prefixed texts.
    var id: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(purchase.receipt.count + 96)
        func append(length: Int) { withUnsafeBytes(of: UInt32(length).bigEndian) { bytes.append(contentsOf: $0) } }
        for text in [player, purchase.store, purchase.productID] {
            append(length: text.utf8.count)
            bytes.append(contentsOf: text.utf8)
        }
        append(length: purchase.receipt.count)
        bytes.append(contentsOf: purchase.receipt.head)
        bytes.append(contentsOf: purchase.receipt.tail)
        return "0-" + Digest.hex(Digest.sha256(bytes).prefix(16))
    }
}

/// What a client was told in the end.
enum FinalAnswer: Sendable, Equatable {
    case credited(alreadyProcessed: Bool)
    /// Refused for good, with the reason's slug.
    case refused(reason: String)
    case awaitingPayment
    /// It waits for a human, among the dead letters.
    case parked
    /// Pushed onto the list, and nobody waits for what becomes of it.
    case pushed
    /// No final answer within the client's patience; what the last try ended with.
    case gaveUp(last: String, wasAccepted: Bool)

    /// The word for reports.
    var word: String {
        switch self {
        case .credited(alreadyProcessed: false): "credited"
        case .credited(alreadyProcessed: true): "credited before"
        case .refused(let reason): reason
        case .awaitingPayment: "awaiting-payment"
        case .parked: "parked"
        case .pushed: "pushed"
        case .gaveUp(let last, _): "gave up: \(last)"
        }
    }

    /// Whether this is an answer that Teller may give to a receipt of this kind.
    func isRight(for kind: SubmissionKind) -> Bool {
        switch (self, kind) {
        case (.pushed, _), (.gaveUp, _): true
        case (.credited, .purchase), (.credited, .duplicate): true
        case (.refused(let reason), .replay): reason == "belongs-to-another-player"
        case (.refused, .forged): true
        case (.awaitingPayment, .pending): true
        default: false
        }
    }
}
