public import Commerce
import Glibc
import Redis
public import ServiceRuntime

/// Measures how fast, and at what price, a worker credits receipts that lie waiting for it.
///
/// The receipts are bought and pushed onto a list beside the real one first, so that neither signing nor pushing competes
/// with the worker; one RENAME puts them into its way and starts the clock. The clock stops when the wallets' ledgers have
/// one more entry for each, read straight from Redis every 50 ms. The players are its own, so a run may follow another
/// on the same Redis; after a crash the list beside is left over, which no worker looks at.
@LoopActor
public final class WorkerBench {
    /// What is measured.
    public struct Configuration: Sendable {
        /// The Redis under test; needs the rights of the person on call.
        public var redis: LabRedis
        /// What the Teller under test sells.
        public var catalogue: Catalogue
        /// Which list: `apple` or `google`.
        public var store: String
        /// Base URL of the store emulator; nil when another store stands behind the worker.
        ///
        /// Then Google's purchase tokens are made up: it has to call all of them good.
        public var emulatorURL: String?
        /// How late every answer of the emulated store is.
        public var latency: Duration = .zero
        /// Receipts under the clock.
        public var count = 20_000
        /// Receipts before it: connections, access token, certificate chain.
        public var warmUp = 200
        /// How many players buy.
        public var players = 200
        /// After this long the run ends with what is credited by then.
        public var limit: Duration = .seconds(30)
        /// Processes whose CPU time and memory are reported, by the name they get in the report.
        public var processes: [(name: String, pid: Int32)] = []
        /// Whether to weigh every key afterwards.
        public var takesCensus = false

        /// A run with the defaults.
        public init(redis: LabRedis, catalogue: Catalogue, store: String, emulatorURL: String?) {
            self.redis = redis
            self.catalogue = catalogue
            self.store = store
            self.emulatorURL = emulatorURL
        }
    }

    private static let pushMax = 100
    private static let lookEvery: Duration = .milliseconds(50)

    private let configuration: Configuration
    private let redis: RedisConnection
    private let prefix: String
    private var pending: String { "teller:{0}:pending:\(configuration.store)" }

    private init(_ configuration: Configuration, _ redis: RedisConnection) {
        self.configuration = configuration
        self.redis = redis
        prefix = "bench-\(getpid())-"
    }

    /// Runs it from beginning to end.
    ///
    /// - Throws: ``LabError``, also when the warm-up is not credited or more is credited than was bought.
    public static func run(
        _ configuration: Configuration, progress: @LoopActor (String) -> Void = { _ in }
    ) async throws -> WorkerBenchReport {
        let connection = try await configuration.redis.connect().connection
        do {
            let report = try await WorkerBench(configuration, connection).measure(progress)
            await connection.stop()
            return report
        } catch {
            await connection.stop()
            throw error
        }
    }

    private func measure(_ progress: @LoopActor (String) -> Void) async throws -> WorkerBenchReport {
        let census = configuration.takesCensus ? try await MemoryCensus.take(redis) : nil
        let aside = "teller:{0}:bench:\(configuration.store)"
        let receipts = try await supply(progress)
        try await push(configuration.warmUp, of: receipts, to: pending)
        try await push(configuration.count, of: receipts, to: aside) { progress("pushed \($0)") }
        let warm = try await waitForCredits(configuration.warmUp, within: .seconds(20)) { _ in }
        guard warm == configuration.warmUp else {
            throw LabError.redis("of \(configuration.warmUp) receipts to warm up \(warm) were credited")
        }
        try await pause(for: .seconds(1))

        var report = WorkerBenchReport(store: configuration.store, latency: configuration.latency)
        let watch = ProcessWatch(configuration.processes.map(\.pid) + [getpid()])
        watch.look()
        let busy = MachineLook()
        let begin = MonotonicInstant.now
        _ = try await redis.send(["RENAME", .string(aside), .string(pending)])
        let all = configuration.warmUp + configuration.count
        let credited = try await waitForCredits(all, within: configuration.limit) { credited in
            watch.look()
            progress("\(credited - configuration.warmUp)/\(configuration.count) credited")
        }
        report.took = begin.elapsed
        let usages = watch.look()
        report.credited = credited - configuration.warmUp
        report.isComplete = credited >= all
        report.processes = zip(configuration.processes.map(\.name) + ["lab"], usages).map { ($0, $1) }
        report.others = MachineLook().busy - busy.busy - usages.reduce(.zero) { $0 + $1.cpu }
        if let census { report.memory = try await weigh(since: census, progress) }
        let atEnd = try await credits()
        guard atEnd <= all else { throw LabError.redis("\(all) receipts were bought, \(atEnd) were credited") }
        return report
    }

    private func weigh(since before: MemoryCensus, _ progress: @LoopActor (String) -> Void) async throws -> MemoryPrice
    {
        _ = try await QueueReader(redis).waitUntilEmpty(within: .seconds(30), progress: progress)
        return MemoryPrice(from: before, to: try await MemoryCensus.take(redis), purchases: try await credits())
    }

    // MARK: - Receipts

    /// As many receipts as the run needs, one at each call.
    private func supply(_ progress: @LoopActor (String) -> Void) async throws -> @LoopActor () -> Submission? {
        guard let url = configuration.emulatorURL else { return try madeUp() }
        var plan = LoadPlan(
            target: .list, redis: configuration.redis, emulatorURL: url, catalogue: configuration.catalogue)
        plan.mix = .honest
        plan.mix.apple = configuration.store == "apple" ? 1 : 0
        plan.players = configuration.players
        plan.playerPrefix = prefix
        let emulator = EmulatorClient(url)
        do {
            let stock = try SubmissionStock(plan, emulator: emulator, refillTo: 0)
            try await stock.prepare(configuration.count + configuration.warmUp) { progress("bought \($0)") }
            try await emulator.delay(store: configuration.store, by: configuration.latency)
            await emulator.stop()
            return { stock.next() }
        } catch {
            await emulator.stop()
            throw error
        }
    }

    private func madeUp() throws(LabError) -> @LoopActor () -> Submission? {
        guard configuration.store == "google" else {
            throw .impossiblePlan("without the emulator nobody signs for Apple: only google can be measured")
        }
        let product = configuration.catalogue.products.first {
            $0.type == .consumable && $0.storeProductIDs[.googlePlay] != nil
        }
        guard let product else { throw .impossiblePlan("the catalogue has no consumable product for google") }
        var number = 0
        let padding = Array(String(repeating: "abcdefghij", count: 13).utf8)
        return { [prefix, players = configuration.players] in
            number += 1
            let purchase = LoadPurchase(
                id: "\(number)", kind: .purchase, store: "google", player: prefix + "\(number % players)",
                productID: product.id.rawValue, isBound: false,
                receipt: StoredReceipt(head: Array("tok-\(prefix)\(number).".utf8), tail: padding))
            return Submission(kind: .purchase, purchase: purchase, player: purchase.player)
        }
    }

    private func push(
        _ count: Int, of receipts: @LoopActor () -> Submission?, to key: String,
        progress: @LoopActor (Int) -> Void = { _ in }
    ) async throws {
        var left = count
        while left > 0 {
            var command: [RedisArgument] = ["LPUSH", .string(key)]
            for _ in 0..<min(left, Self.pushMax) {
                guard let submission = receipts() else { throw LabError.emulator("sold too little") }
                command.append(.bytes(submission.body))
            }
            left -= command.count - 2
            _ = try await redis.send(command)
            progress(count - left)
        }
    }

    // MARK: - Credits

    private func waitForCredits(
        _ count: Int, within limit: Duration, progress: @LoopActor (Int) -> Void
    ) async throws -> Int {
        let begin = MonotonicInstant.now
        while true {
            let credited = try await credits()
            if credited >= count || begin.elapsed > limit { return credited }
            progress(credited)
            try await pause(for: Self.lookEvery)
        }
    }

    private func credits() async throws -> Int {
        let replies = await redis.send(
            pipeline: (0..<configuration.players).map { ["LLEN", .string("teller:{0}:ledger:\(prefix)\($0)")] })
        return try replies.reduce(0) { try $0 + Int($1.get().int ?? 0) }
    }
}

/// The CPU time that all processes of the machine have used.
struct MachineLook {
    let busy: Duration

    init() {
        var bytes = [UInt8](repeating: 0, count: 512)
        var count = 0
        if let file = fopen("/proc/stat", "re") {
            count = fread(&bytes, 1, bytes.count, file)
            fclose(file)
        }
        let line = String(decoding: bytes[..<count], as: UTF8.self).prefix { $0 != "\n" }
        // cpu user nice system idle iowait irq softirq steal: everything but the two kinds of idling.
        let fields = line.split(separator: " ").dropFirst().prefix(8).compactMap { Int($0) }
        let idle = fields.count > 4 ? fields[3] + fields[4] : 0
        busy = .seconds(Double(fields.reduce(0, +) - idle) / Double(sysconf(Int32(_SC_CLK_TCK))))
    }
}
