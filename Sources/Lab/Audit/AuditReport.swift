public import ServiceRuntime

/// One thing that is not as the ground truth says.
public struct AuditDifference: Sendable, Equatable {
    /// What is wrong.
    public enum Kind: String, Sendable, CaseIterable {
        /// A purchase that must be credited is not.
        case missingCredit = "missing-credit"
        /// A client heard "credited" of a purchase that is not.
        case reportedButMissing = "reported-but-missing"
        /// A purchase is credited more than once.
        case doubledCredit = "doubled-credit"
        /// A purchase is credited to somebody who did not buy it.
        case wrongPlayer = "wrong-player"
        /// A forged, unpaid or otherwise worthless receipt is credited.
        case worthlessCredit = "worthless-credit"
        /// The stores never sold what is credited.
        case unknownPurchase = "unknown-purchase"
        /// A credit grants something else than the catalogue says.
        case wrongAmount = "wrong-amount"
        /// A balance is not the sum of the player's ledger.
        case balanceMismatch = "balance-mismatch"
        /// A permanent mark is missing, superfluous, or points at another entry.
        case markMismatch = "mark-mismatch"
        /// A credited purchase is not claimed by its player.
        case claimMismatch = "claim-mismatch"
        /// An entitlement is missing, or there without a credit.
        case entitlementMismatch = "entitlement-mismatch"
        /// A ledger entry or key cannot be read.
        case unreadable
        /// The ledger's own reading shows something else than its keys hold.
        case ledgerDisagrees = "ledger-disagrees"
        /// A job is left in a list.
        case leftover
        /// Google was not told of a credit, and takes the purchase back after three days.
        case missingDuty = "missing-duty"
        /// Google was told of a credit that there is not: what is consumed can be neither proved nor refunded any more.
        case unearnedDuty = "unearned-duty"
    }

    /// What is wrong.
    public let kind: Kind
    /// Whose wallet; nil when it is nobody's in particular.
    public let player: String?
    /// The rest, for people; never a purchase token.
    public let detail: String

    /// States a difference.
    public init(_ kind: Kind, player: String? = nil, _ detail: String) {
        self.kind = kind
        self.player = player
        self.detail = detail
    }
}

/// A job that waits for a human, as the audit lists it.
public struct AuditedDeadLetter: Sendable, Equatable {
    /// Its id, for `teller dead show`.
    public let id: String
    /// The queue it came from.
    public let queue: String
    /// Why it was buried.
    public let reasons: [String]
}

/// What an audit saw.
public struct AuditReport: Sendable {
    /// Purchases in the ground truth.
    public internal(set) var purchases = 0
    /// Those that must be credited.
    public internal(set) var mustBeCredited = 0
    /// Those that may be credited, or not.
    public internal(set) var mayBeCredited = 0
    /// Those that must never be.
    public internal(set) var mustNotBeCredited = 0
    /// Wallets looked into.
    public internal(set) var players = 0
    /// Ledger entries read.
    public internal(set) var entries = 0
    /// Sum of all balances, by currency.
    public internal(set) var balances: [String: Int64] = [:]
    /// Jobs left when the time to settle was over, by where they are.
    public internal(set) var leftovers: [String: Int] = [:]
    /// How long it took until nothing was left; nil when something is.
    public internal(set) var settledAfter: Duration?
    /// How many dead letters there are.
    public internal(set) var deadLetterCount = 0
    /// The newest of them, at most 1,000.
    public internal(set) var deadLetters: [AuditedDeadLetter] = []
    /// The differences, at most 1,000 of each kind.
    public private(set) var differences: [AuditDifference] = []
    /// How many there are, by kind.
    public private(set) var differenceCounts: [AuditDifference.Kind: Int] = [:]

    private static let keptOfEachKindMax = 1000

    /// Whether everything is as it must be; dead letters alone are no difference.
    public var isClean: Bool { differenceCounts.isEmpty }

    mutating func add(_ difference: AuditDifference) {
        let count = differenceCounts[difference.kind, default: 0] + 1
        differenceCounts[difference.kind] = count
        if count <= Self.keptOfEachKindMax { differences.append(difference) }
    }

    /// Lines for people.
    public var text: String {
        var lines = [
            "audit: \(isClean ? "clean" : "\(differenceCounts.values.reduce(0, +)) DIFFERENCES")",
            "  ground truth  \(purchases) purchases: \(mustBeCredited) must be credited, \(mayBeCredited) may, "
                + "\(mustNotBeCredited) must not",
            "  ledger        \(entries) entries of \(players) players; balances "
                + (balances.isEmpty
                    ? "none"
                    : balances.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")),
            "  queues        "
                + (settledAfter.map { "empty after \(LabText.seconds($0)) s" }
                    ?? "left: "
                    + leftovers.sorted { $0.key < $1.key }.map { "\($0.value) in \($0.key)" }
                    .joined(separator: ", ")),
            "  dead letters  \(deadLetterCount)",
        ]
        for letter in deadLetters.prefix(20) {
            lines.append("    \(letter.id) of \(letter.queue): \(letter.reasons.joined(separator: "; "))")
        }
        if deadLetterCount > 20 { lines.append("    … see: teller dead list") }
        for (kind, count) in differenceCounts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            lines.append("  \(kind.rawValue): \(count)")
            for difference in differences.lazy.filter({ $0.kind == kind }).prefix(20) {
                lines.append("    \(difference.player.map { "\($0): " } ?? "")\(difference.detail)")
            }
            if count > 20 { lines.append("    … and \(count - 20) more") }
        }
        return lines.joined(separator: "\n")
    }

    /// Writes the report as one JSON object's members.
    public func write(to json: inout JSONWriter) {
        json.member("clean", isClean)
        json.member("purchases", purchases)
        json.member("mustBeCredited", mustBeCredited)
        json.member("mayBeCredited", mayBeCredited)
        json.member("mustNotBeCredited", mustNotBeCredited)
        json.member("players", players)
        json.member("entries", entries)
        json.member("balances", object: { json in LabText.write(balances, to: &json) })
        json.member("settledAfterMs", settledAfter?.inMilliseconds)
        json.member("leftovers", object: { json in LabText.write(leftovers, to: &json) })
        json.member("deadLetterCount", deadLetterCount)
        json.member(
            "deadLetters",
            array: { json in
                for letter in deadLetters {
                    json.object { json in
                        json.member("id", letter.id)
                        json.member("queue", letter.queue)
                        json.member("reasons", array: { json in for reason in letter.reasons { json.element(reason) } })
                    }
                }
            })
        let counts = differenceCounts.map { ($0.key.rawValue, $0.value) }
        json.member(
            "differenceCounts",
            object: { json in LabText.write(Dictionary(uniqueKeysWithValues: counts), to: &json) })
        json.member(
            "differences",
            array: { json in
                for difference in differences {
                    json.object { json in
                        json.member("kind", difference.kind.rawValue)
                        json.member("player", difference.player)
                        json.member("detail", difference.detail)
                    }
                }
            })
    }
}
