import Commerce
import HTTP
import Jobs
import Ledger
import ReceiptWorker
import Redis
import ServiceRuntime
import ShopAPI
import Signing
import StoreEmulator
import TestSupport
import Verification

/// All of Teller in one process: API, worker, a redis-server of its own, and both stores over HTTP.
@LoopActor
final class Works {
    /// What is different from the ordinary.
    struct Plan {
        var verification: (inout VerificationConfiguration) -> Void = { _ in }
        var retry = RetrySchedule(first: .milliseconds(20), longest: .milliseconds(200))
        var inFlightMax: [WorkQueue: Int] = [.apple: 100, .google: 100, .googleDuty: 20]
        var workers = 1
        var aloneMax = Duration.seconds(5)
    }

    private static let incarnation = "00000000000000000000000000000001"

    let server: RedisServer
    let emulator: StoreEmulator
    let redis: RedisConnection
    let jobs: JobQueue
    let ledger: Ledger
    let api: ShopAPI
    let metrics = Metrics()
    private(set) var workers: [ReceiptWorker] = []
    private(set) var failures = 0
    private let redisConfiguration: RedisConfiguration
    private let plan: Plan
    private let verification: VerificationConfiguration
    private let http = HTTPClient(logger: .disabled)
    private let listener: HTTPServer
    private let port: Int
    private let feed: RedisSubscriber
    private var connections: [RedisConnection] = []

    private init(_ plan: Plan, _ server: RedisServer) async throws {
        self.plan = plan
        self.server = server
        emulator = try StoreEmulator()
        try emulator.start()
        verification = try Self.verification(emulator, plan.verification)
        redisConfiguration = RedisConfiguration(address: try RedisAddress(url: server.url))
        redis = RedisConnection(redisConfiguration, logger: .disabled, metrics: nil)
        redis.start()
        try await redis.ready(within: .seconds(20))
        _ = try await Meta.initialise(redis, buckets: 16, isProduction: false)
        let meta = try await Meta.read(redis)
        jobs = Self.queue(redis, redisConfiguration, meta, nil)
        ledger = Ledger(redis: redis, configuration: .init(buckets: meta.buckets, incarnation: meta.incarnation))
        let keys = [APIKey(id: "game", secretSHA256: Digest.sha256(Array("s3cret".utf8)), scopes: [.submit, .read])]
        let api = ShopAPI(
            jobs: jobs, ledger: ledger, catalogue: try Self.catalogue(), configuration: .init(keys: keys),
            logger: .disabled, metrics: Metrics())
        self.api = api
        feed = RedisSubscriber(
            redisConfiguration, logger: .disabled, metrics: nil, channels: [jobs.settledChannel],
            onMessage: { _, ids in
                api.settled(ids.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) })
            }, onResubscribed: { api.feedResumed() })
        let router = Router()
        api.register(on: router)
        listener = HTTPServer(HTTPServer.Configuration(), router: router, logger: .disabled)
        port = try listener.start()
        feed.start()
        for _ in 0..<plan.workers { try await addWorker() }
    }

    static func run(_ plan: Plan = Plan(), _ body: @LoopActor (Works) async throws -> Void) async throws {
        try await RedisServer.running { server in
            let works = try await Works(plan, server)
            try await TestSupport.running {
                try await body(works)
            } stop: {
                await works.close()
            }
        }
    }

    private func close() async {
        api.stopWaiting()
        for worker in workers { _ = await worker.stop(within: .milliseconds(200)) }
        _ = await listener.stop(within: .seconds(1))
        await http.stop()
        await emulator.stop()
        await feed.stop()
        for connection in connections + [redis] { await connection.stop() }
    }

    /// Starts one more worker, with a connection of its own.
    @discardableResult
    func addWorker() async throws -> ReceiptWorker {
        let own = RedisConnection(redisConfiguration, logger: .disabled, metrics: nil)
        own.start()
        connections.append(own)
        try await own.ready(within: .seconds(20))
        let meta = try await Meta.read(own)
        let verifier = try PurchaseVerifier(verification, http: http, logger: .disabled, metrics: Metrics())
        var configuration = ReceiptWorker.Configuration(inFlightMax: plan.inFlightMax, retry: plan.retry)
        configuration.aloneMax = plan.aloneMax
        let worker = ReceiptWorker(
            jobs: Self.queue(own, redisConfiguration, meta, WorkerID()),
            ledger: Ledger(redis: own, configuration: .init(buckets: meta.buckets, incarnation: meta.incarnation)),
            verifier: verifier, catalogue: try Self.catalogue(),
            configuration: configuration, logger: .disabled, metrics: metrics, failed: { _ in self.failures += 1 })
        worker.start()
        workers.append(worker)
        return worker
    }

    /// A worker that stops well is forgotten.
    func stopWorker(within deadline: Duration) async -> ReceiptWorker.StopReport {
        await workers.removeLast().stop(within: deadline)
    }

    func reload(_ catalogue: Catalogue) {
        api.catalogue = catalogue
        for worker in workers { worker.catalogue = catalogue }
    }

    private static func queue(
        _ redis: RedisConnection, _ blocking: RedisConfiguration, _ meta: Meta, _ worker: WorkerID?
    ) -> JobQueue {
        var configuration = JobQueue.Configuration()
        // A purchase that was refused is looked at again at once.
        configuration.lookAgainInterval = .zero
        configuration.sweepInterval = .milliseconds(50)
        return JobQueue(
            redis: redis, incarnation: meta.incarnation, worker: worker, blocking: blocking,
            configuration: configuration, logger: .disabled, metrics: nil)
    }

    private static func verification(
        _ emulator: StoreEmulator, _ change: (inout VerificationConfiguration) -> Void
    ) throws -> VerificationConfiguration {
        var verification = try VerificationConfiguration(emulatedBy: emulator)
        verification.limits.tooNewDelay = .milliseconds(20)
        verification.limits.throttledDelay = .milliseconds(50)
        verification.limits.configurationDelay = .milliseconds(50)
        verification.limits.parkedDelay = .milliseconds(50)
        change(&verification)
        return verification
    }

    static func catalogue(_ extra: String = "") throws -> Catalogue {
        let json = """
            [{"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500",\
            "android":"gems_500"},"displayName":"500 crystals","gemAmount":500,"bonusGemAmount":50,"position":2},\
            {"productId":"gems_pack_huge","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.9000",\
            "android":"gems_9000"},"displayName":"9000 crystals","gemAmount":9000,"position":3},\
            {"productId":"doubler","type":"iap_non_consumable","storeProductId":{"ios":"com.mygame.doubler",\
            "android":"doubler"},"displayName":"Doubler","gemAmount":10,"position":4}\(extra)]
            """
        return try Catalogue(json: Array(json.utf8))
    }

    // MARK: - Buying and handing in

    func buy(
        _ store: EmulatedStore, _ product: String = "gems_pack_medium", by player: String = "ada",
        _ change: (inout PurchaseRequest) -> Void = { _ in }
    ) throws -> EmulatedPurchase {
        let names = [
            "gems_pack_medium": ["com.mygame.gems.500", "gems_500"],
            "gems_pack_huge": ["com.mygame.gems.9000", "gems_9000"], "doubler": ["com.mygame.doubler", "doubler"],
        ]
        let name = names[product]?[store == .apple ? 0 : 1] ?? product
        var request = PurchaseRequest(store: store, player: player, storeProductID: name)
        if product == "doubler" { request.type = "Non-Consumable" }
        change(&request)
        return try emulator.purchase(request)
    }

    static func order(_ receipt: String, _ player: String = "ada", product: String? = "gems_pack_medium") -> String {
        var writer = JSONWriter()
        writer.object {
            $0.member("userId", player)
            $0.member("productId", product)
            $0.member("receiptData", receipt)
        }
        return writer.text
    }

    static func id(of order: String) throws -> SubmissionID {
        let submission = try ReceiptSubmission(json: JSONView.parse(order))
        return SubmissionID(digest: Digest.sha256(submission.canonicalBytes))
    }

    /// An answer of the API.
    struct Answer: Sendable {
        let status: Int
        let body: [UInt8]

        var json: JSONView? { try? JSONView.parse(body) }
        var raw: String { String(decoding: body, as: UTF8.self) }

        func text(_ key: String) -> String? { (try? json?.optionalString(key)) ?? nil }
        func number(_ key: String) -> Int64? { (try? json?.optionalInt64(key)) ?? nil }
        var isAlreadyProcessed: Bool? { (try? json?.optionalBool("alreadyProcessed")) ?? nil }
        var granted: Int64? { (try? json?.object("granted").optionalInt64("gems")) ?? nil }
        /// `status reason clientAction`.
        var summary: String {
            "\(status) \(text("reason") ?? text("status") ?? "-") \(text("clientAction") ?? "-")"
        }
    }

    func submit(_ order: String, wait: Int = 30) async throws -> Answer {
        try await send(
            .post, "/shop/purchase", [("Content-Type", "application/json"), ("Prefer", "wait=\(wait)")],
            Array(order.utf8))
    }

    func submit(
        _ purchase: EmulatedPurchase, by player: String = "ada", product: String? = "gems_pack_medium", wait: Int = 30
    ) async throws -> Answer {
        try await submit(Self.order(purchase.receipt, player, product: product), wait: wait)
    }

    func poll(_ order: String) async throws -> Answer {
        try await send(.get, "/shop/purchases/\(try Self.id(of: order).rawValue)", [], nil)
    }

    private func send(
        _ method: HTTPMethod, _ path: String, _ headers: [(String, String)], _ body: [UInt8]?
    ) async throws -> Answer {
        let answer = try await http.send(
            OutgoingRequest(
                method, "http://127.0.0.1:\(port)\(path)", headers: headers + [("Authorization", "Bearer game.s3cret")],
                body: body, deadline: .seconds(60)))
        return Answer(status: answer.status, body: answer.body)
    }

    // MARK: - Looking

    func gems(_ player: String = "ada") async throws -> Int64 {
        try await ledger.wallet(of: try PlayerID(validating: player)).balance(of: .gems)
    }

    func entries(_ player: String = "ada") async throws -> Int {
        try await ledger.history(of: try PlayerID(validating: player), limit: 100).items.count
    }

    /// A player's gems and entries, and everybody's claims.
    func totals(_ player: String = "ada") async throws -> [Int64] {
        [try await gems(player), Int64(try await entries(player)), Int64(try await claims())]
    }

    /// Claims of all purchases.
    func claims() async throws -> Int {
        let buckets = try await redis.send(["KEYS", "teller:claims:*"]).elements ?? []
        var count = 0
        for bucket in buckets.compactMap(\.text) {
            count += Int(try await redis.send(["HLEN", .string(bucket)]).int ?? 0)
        }
        return count
    }

    /// Forgets what became of a submission, as after 24 hours.
    func forgetStatus(of order: String) async throws {
        _ = try await redis.send(["DEL", .string("teller:{0}:status:\(try Self.id(of: order).rawValue)")])
    }

    func push(_ job: String, to queue: String) async throws {
        try await push(bytes: Array(job.utf8), to: queue)
    }

    func push(bytes: [UInt8], to queue: String) async throws {
        _ = try await redis.send(["LPUSH", .string("teller:{0}:pending:\(queue)"), .bytes(bytes)])
    }

    func status(of order: String) async throws -> SubmissionStatus? {
        try await jobs.status(of: try Self.id(of: order).rawValue).map {
            try SubmissionStatus(json: JSONView.parse($0))
        }
    }

    /// Nothing pending, arrived, running or in retry, in one look: jobs move while they are counted one by one.
    func isIdle() async throws -> Bool {
        let script = """
            local jobs = 0
            for _, queue in ipairs({'apple', 'google', 'google-duty'}) do
                for _, list in ipairs({'pending', 'arrived', 'suspects'}) do
                    jobs = jobs + redis.call('LLEN', 'teller:{0}:' .. list .. ':' .. queue)
                end
                jobs = jobs + redis.call('ZCARD', 'teller:{0}:retry:' .. queue)
            end
            for _, worker in ipairs(redis.call('ZRANGE', 'teller:{0}:workers', 0, -1)) do
                jobs = jobs + redis.call('HLEN', 'teller:{0}:running:' .. worker)
            end
            return jobs
            """
        return try await redis.send(["EVAL", .string(script), "0"]).int == 0
    }

    func account(of player: String) -> String { UUIDv5.make(namespace: AccountBinding.namespace, name: player) }
}
