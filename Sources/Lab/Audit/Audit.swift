public import Commerce
import Jobs
import Ledger
import Redis
public import ServiceRuntime

/// Holds every wallet against what the stores sold.
///
/// Of each purchase that must be credited there is exactly one ledger entry, in its buyer's ledger, granting what the
/// catalogue says, with its permanent mark and its claim; of every other there is none; each balance is the sum of its
/// ledger; the ledger's own reading shows the same; Google was told of each credit, and of nothing else; and no job is
/// left in any list. It only reads, so it may run while
/// others write; but then it may see a credit between two of its looks, so it waits until the lists are empty first.
@LoopActor
public final class Audit {
    /// What is held against what.
    public struct Configuration: Sendable {
        /// The Redis of the Teller under test.
        public var redis: LabRedis
        /// Base URL of the store emulator that sold the purchases.
        public var emulatorURL: String
        /// The catalogue of the Teller under test.
        public var catalogue: Catalogue
        /// How long the lists get to drain; what is left then is a difference.
        public var settle: Duration = .seconds(30)
        /// What clients were told; nil demands a credit for every good purchase of the ground truth, handed in or not.
        public var heard: HeardAnswers?
        /// Whether Teller under test consumes (`google.consume: server`), so that all of its duties are known.
        public var consumesAtServer = true

        /// An audit of everything that the emulator ever sold.
        public init(redis: LabRedis, emulatorURL: String, catalogue: Catalogue) {
            self.redis = redis
            self.emulatorURL = emulatorURL
            self.catalogue = catalogue
        }
    }

    /// Audits.
    ///
    /// - Parameters:
    ///   - configuration: What is held against what.
    ///   - progress: Called with a line for people now and then.
    /// - Returns: What was seen; differences are in it, not thrown.
    /// - Throws: `LabError` when it cannot be told: Redis or the emulator does not answer, or it is a production Redis.
    public static func run(
        _ configuration: Configuration, progress: @escaping @LoopActor (String) -> Void = { _ in }
    ) async throws -> AuditReport {
        let (redis, meta) = try await configuration.redis.connect()
        let emulator = EmulatorClient(configuration.emulatorURL)
        do {
            let audit = Audit(configuration, redis, meta, progress)
            let report = try await audit.run(emulator)
            await redis.stop()
            await emulator.stop()
            return report
        } catch {
            await redis.stop()
            await emulator.stop()
            throw error as? LabError ?? LabError.redis("\(error)")
        }
    }

    private let configuration: Configuration
    private let progress: @LoopActor (String) -> Void
    private let redis: RedisConnection
    private let meta: Meta
    private let reader: WalletReader
    private var report = AuditReport()
    /// By purchase key.
    private var truth: [String: TruthRecord] = [:]
    /// Who holds a credit of a purchase, by purchase key.
    private var creditedTo: [String: String] = [:]

    private static let chunk = 128

    private init(
        _ configuration: Configuration, _ redis: RedisConnection, _ meta: Meta,
        _ progress: @escaping @LoopActor (String) -> Void
    ) {
        self.configuration = configuration
        self.progress = progress
        self.redis = redis
        self.meta = meta
        reader = WalletReader(
            redis,
            ledger: Ledger(
                redis: redis, configuration: .init(buckets: meta.buckets, incarnation: meta.incarnation)))
    }

    private func run(_ emulator: EmulatorClient) async throws -> AuditReport {
        let queues = QueueReader(redis)
        (report.settledAfter, report.leftovers) = try await queues.waitUntilEmpty(
            within: configuration.settle, progress: progress)
        let records = try await emulator.groundTruth()
        count(records)
        let keys = try await KeyspaceReader(redis).read()
        report.leftovers.merge(keys.leftoverKeys) { $1 }
        for (place, count) in report.leftovers {
            report.add(AuditDifference(.leftover, "\(count) left in \(place)"))
        }
        let players = keys.players.union(records.map(\.player)).sorted()
        report.players = players.count
        for start in stride(from: 0, to: players.count, by: Self.chunk) {
            let wallets = try await reader.read(Array(players[start..<min(start + Self.chunk, players.count)]))
            for wallet in wallets { check(wallet) }
            progress("audit: \(min(start + Self.chunk, players.count)) of \(players.count) wallets")
        }
        try await checkPurchases(records)
        if configuration.consumesAtServer { checkDuties(records) }
        try await listDeadLetters()
        return report
    }

    private func count(_ records: [TruthRecord]) {
        report.purchases = records.count
        for record in records {
            truth[record.key] = record
            switch duty(of: record) {
            case .must: report.mustBeCredited += 1
            case .may: report.mayBeCredited += 1
            case .mustNot: report.mustNotBeCredited += 1
            }
        }
    }

    /// A good purchase that nobody handed in, or whose client never heard that it arrived, may be missing.
    private func duty(of record: TruthRecord) -> TruthRecord.Duty {
        guard record.duty == .must, let heard = configuration.heard, !heard.accepted.contains(record.id) else {
            return record.duty
        }
        return .may
    }

    // MARK: - One wallet

    private func check(_ wallet: AuditedWallet) {
        var sums: [String: Int64] = [:]
        var expectedMarks: [[UInt8]: Int64] = [:]
        var entitlements: Set<String> = []
        report.entries += wallet.entries.count
        for (index, entry) in wallet.entries.enumerated() {
            guard let entry else {
                report.add(.init(.unreadable, player: wallet.player, "ledger entry \(index + 1) cannot be read"))
                continue
            }
            for (currency, amount) in entry.grants { sums[currency, default: 0] += amount }
            entitlements.formUnion(entry.entitlements)
            expectedMarks[entry.mark] = Int64(index + 1)
            check(entry, of: wallet.player)
        }
        for problem in wallet.problems { report.add(.init(problem.kind, player: wallet.player, problem.detail)) }
        if wallet.marks != expectedMarks {
            report.add(
                .init(
                    .markMismatch, player: wallet.player,
                    "\(wallet.marks.count) marks for \(expectedMarks.count) purchases in \(wallet.entries.count) entries, "
                        + "\(expectedMarks.count { wallet.marks[$0.key] == $0.value }) of them right"))
        }
        for currency in Set(sums.keys).union(wallet.balances.keys) {
            let (sum, balance) = (sums[currency] ?? 0, wallet.balances[currency] ?? 0)
            report.balances[currency, default: 0] += balance
            guard sum != balance else { continue }
            report.add(
                .init(
                    .balanceMismatch, player: wallet.player,
                    "the balance is \(balance) \(currency), the ledger adds up to \(sum)"))
        }
        if wallet.entitlements != entitlements {
            let wrong = wallet.entitlements.symmetricDifference(entitlements).sorted()
            report.add(.init(.entitlementMismatch, player: wallet.player, wrong.joined(separator: ", ")))
        }
    }

    private func check(_ entry: AuditedEntry, of player: String) {
        guard let record = truth[entry.key] else {
            report.add(.init(.unknownPurchase, player: player, "a purchase that no store sold, of \(entry.productID)"))
            return
        }
        if let other = creditedTo[entry.key] {
            let where_ = other == player ? "twice" : "here and to \(other)"
            report.add(.init(.doubledCredit, player: player, "\(record.label) is credited \(where_)"))
        }
        creditedTo[entry.key] = player
        if record.duty == .mustNot {
            report.add(.init(.worthlessCredit, player: player, "\(record.label) must not be credited"))
        }
        if record.player != player {
            report.add(.init(.wrongPlayer, player: player, "\(record.label) was bought by \(record.player)"))
        }
        let expected = grants(of: record)
        if expected?.currencies != entry.grants || expected?.entitlements != entry.entitlements {
            report.add(
                .init(
                    .wrongAmount, player: player,
                    "\(record.label) grants \(entry.grants.map { "\($0.value) \($0.key)" }.sorted()), the catalogue says "
                        + "\((expected?.currencies ?? [:]).map { "\($0.value) \($0.key)" }.sorted())"))
        }
    }

    private func grants(of record: TruthRecord) -> (currencies: [String: Int64], entitlements: Set<String>)? {
        guard let store = Store(rawValue: record.store),
            let id = StoreProductID(rawValue: record.storeProductID),
            let product = configuration.catalogue.product(store: store, storeProductID: id),
            let grants = try? product.grants(quantity: record.quantity)
        else { return nil }
        let currencies = grants.currencies.map { ($0.currency.rawValue, $0.amount) }
        return (
            Dictionary(currencies, uniquingKeysWith: +), Set(grants.entitlements.map(\.rawValue))
        )
    }

    // MARK: - All purchases

    private func checkPurchases(_ records: [TruthRecord]) async throws {
        for record in records where creditedTo[record.key] == nil {
            if configuration.heard?.credited.contains(record.id) == true {
                report.add(
                    .init(.reportedButMissing, player: record.player, "\(record.label): the client heard \"credited\""))
            } else if duty(of: record) == .must {
                report.add(.init(.missingCredit, player: record.player, "\(record.label) is not credited"))
            }
        }
        let credited = records.filter { creditedTo[$0.key] != nil }
        for start in stride(from: 0, to: credited.count, by: 1000) {
            let part = credited[start..<min(start + 1000, credited.count)]
            let owners = try await reader.claims(part.map(\.key), buckets: meta.buckets)
            for (record, owner) in zip(part, owners) where owner != creditedTo[record.key] {
                report.add(
                    .init(
                        .claimMismatch, player: creditedTo[record.key],
                        "\(record.label) is claimed by \(owner ?? "nobody")"))
            }
        }
    }

    /// A credited purchase is consumed, one of a non-consumable acknowledged; one that is not credited is neither.
    private func checkDuties(_ records: [TruthRecord]) {
        for record in records where record.store == "google" {
            guard creditedTo[record.key] != nil else {
                guard record.isConsumed || record.isAcknowledged else { continue }
                let what = "\(record.label) is \(record.isConsumed ? "consumed" : "acknowledged"), but nobody's"
                report.add(.init(.unearnedDuty, player: record.player, what))
                continue
            }
            let mustBeConsumed =
                StoreProductID(rawValue: record.storeProductID).flatMap {
                    configuration.catalogue.product(store: .googlePlay, storeProductID: $0)
                }?.type == .consumable
            guard record.isPaidFor, mustBeConsumed ? !record.isConsumed : !record.isAcknowledged else { continue }
            let what = "\(record.label) is not \(mustBeConsumed ? "consumed" : "acknowledged")"
            report.add(.init(.missingDuty, player: creditedTo[record.key], what))
        }
    }

    private func listDeadLetters() async throws {
        let jobs = JobQueue(
            redis: redis, incarnation: meta.incarnation, worker: nil, logger: .disabled, metrics: nil)
        report.deadLetterCount = try await jobs.deadCount()
        while report.deadLetters.count < min(report.deadLetterCount, 1000) {
            let page = try await jobs.deadLetters(offset: report.deadLetters.count)
            guard !page.isEmpty else { return }
            report.deadLetters += page.map { AuditedDeadLetter(id: $0.id, queue: $0.queue, reasons: $0.reasons) }
        }
    }
}
