@_spi(Verification) import Commerce
import HTTP
import Jobs
import Lab
import Ledger
import ReceiptWorker
import Redis
import ServiceRuntime
import ShopAPI
import Signing
import StoreEmulator
import TestSupport
import Verification

/// A Redis that `teller init` has prepared, and a store emulator.
@LoopActor
final class LabScene {
    let server: RedisServer
    let redis: RedisConnection
    let meta: Meta
    let emulator: StoreEmulator
    let ledger: Ledger
    private let http = HTTPClient(logger: .disabled)

    nonisolated static func catalogue() throws -> Catalogue {
        try Catalogue(
            json: Array(
                """
                [{"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500",\
                "android":"gems_500"},"displayName":"500","gemAmount":500,"bonusGemAmount":50},
                {"productId":"gems_pack_small","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.100",\
                "android":"gems_100"},"displayName":"100","gemAmount":100},
                {"productId":"starter_skin","type":"iap_non_consumable","storeProductId":{"ios":"com.mygame.skin.starter",\
                "android":"skin_starter"},"displayName":"Skin"}]
                """.utf8))
    }

    private init(_ server: RedisServer, _ redis: RedisConnection, isProduction: Bool) async throws {
        self.server = server
        self.redis = redis
        _ = try await Meta.initialise(redis, buckets: 64, isProduction: isProduction)
        meta = try await Meta.read(redis)
        emulator = try StoreEmulator()
        try emulator.start()
        ledger = Ledger(redis: redis, configuration: .init(buckets: meta.buckets, incarnation: meta.incarnation))
    }

    static func running(
        isProduction: Bool = false, _ body: @escaping @LoopActor (LabScene) async throws -> Void
    ) async throws {
        try await RedisServer.running { server in
            let redis = RedisConnection(
                RedisConfiguration(address: try RedisAddress(url: server.url)), logger: .disabled, metrics: nil)
            redis.start()
            try await redis.ready(within: .seconds(10))
            let scene = try await LabScene(server, redis, isProduction: isProduction)
            try await TestSupport.running {
                try await body(scene)
            } stop: {
                await scene.stop()
            }
        }
    }

    private func stop() async {
        await http.stop()
        await emulator.stop()
        await redis.stop()
    }

    var labRedis: LabRedis { LabRedis(url: server.url) }

    func send(_ arguments: RedisArgument...) async throws -> RedisValue { try await redis.send(arguments) }

    // MARK: - Purchases

    func buy(
        _ player: String = "ada", _ product: String = "com.mygame.gems.500", store: EmulatedStore = .apple,
        _ change: (inout PurchaseRequest) -> Void = { _ in }
    ) throws -> PurchaseRecord {
        var request = PurchaseRequest(store: store, player: player, storeProductID: product)
        if product.contains("skin") { request.type = "Non-Consumable" }
        change(&request)
        return try emulator.purchase(request).record
    }

    /// Puts a purchase into a wallet as the worker would: with a claim and a mark, and tells its store.
    func credit(_ record: PurchaseRecord, to player: String? = nil) async throws {
        try await credit(record.store, record.id, record.request.storeProductID, to: player ?? record.request.player)
        guard record.store == .google, record.state == .purchased else { return }
        try await perform(record.request.type == "Consumable" ? .googleConsume : .googleAcknowledge, on: record)
    }

    /// Tells Google.
    func perform(_ kind: StoreDuty.Kind, on record: PurchaseRecord) async throws {
        let duty = StoreDuty(
            kind, package: try PackageName(validating: "com.mygame"),
            storeProductID: try StoreProductID(validating: record.request.storeProductID),
            token: try PurchaseToken(validating: record.id))
        let verifier = try PurchaseVerifier(
            .init(emulatedBy: emulator), http: http, logger: .disabled, metrics: Metrics())
        let outcome = await verifier.perform(duty)
        guard outcome == .done else { throw UnexpectedOutcome(outcome: outcome) }
    }

    struct UnexpectedOutcome: Error {
        let outcome: DutyOutcome
    }

    func credit(_ store: EmulatedStore, _ id: String, _ storeProduct: String, to player: String) async throws {
        let player = try PlayerID(validating: player)
        let storeID = try StoreProductID(validating: storeProduct)
        let catalogue = try Self.catalogue()
        let side: Store = store == .apple ? .appStore : .googlePlay
        guard let product = catalogue.product(store: side, storeProductID: storeID) else { return }
        let key: PurchaseKey =
            store == .apple
            ? .apple(environment: .production, transactionID: try TransactionID(validating: id)) { Digest.sha256($0) }
            : .google(token: try PurchaseToken(validating: id)) { Digest.sha256($0) }
        let purchase = VerifiedPurchase(
            key: key, store: side, environment: .production, storeProductID: storeID, product: product, quantity: 1,
            grants: try product.grants(quantity: 1), purchasedAtMilliseconds: 1_793_000_000_000)
        _ = try await ledger.claim(key, for: player)
        _ = try await ledger.credit(purchase, to: player, submission: SubmissionID(digest: Array(0...15)))
    }

    func audit(
        settle: Duration = .milliseconds(300), heard: HeardAnswers? = nil, consumesAtServer: Bool = true
    ) async throws -> AuditReport {
        var configuration = Audit.Configuration(
            redis: labRedis, emulatorURL: emulator.baseURL, catalogue: try Self.catalogue())
        configuration.settle = settle
        configuration.heard = heard
        configuration.consumesAtServer = consumesAtServer
        return try await Audit.run(configuration)
    }

    func plan(_ target: LoadPlan.Target) throws -> LoadPlan {
        LoadPlan(target: target, redis: labRedis, emulatorURL: emulator.baseURL, catalogue: try Self.catalogue())
    }

    // MARK: - A whole Teller

    static let apiKey = "lab.secret"

    /// One API and one worker of the real code, in this process.
    func withTeller(_ body: @LoopActor (_ apiURL: String) async throws -> Void) async throws {
        let configuration = RedisConfiguration(address: try RedisAddress(url: server.url))
        let verifier = try PurchaseVerifier(
            VerificationConfiguration(emulatedBy: emulator), http: http, logger: .disabled, metrics: Metrics())
        let jobs = JobQueue(
            redis: redis, incarnation: meta.incarnation, worker: WorkerID(), blocking: configuration, logger: .disabled,
            metrics: nil)
        let worker = ReceiptWorker(
            jobs: jobs, ledger: ledger, verifier: verifier, catalogue: try Self.catalogue(), logger: .disabled,
            metrics: Metrics())
        let key = APIKey(id: "lab", secretSHA256: Digest.sha256("secret"), scopes: [.submit, .read])
        let api = ShopAPI(
            jobs: JobQueue(
                redis: redis, incarnation: meta.incarnation, worker: nil, logger: .disabled, metrics: nil),
            ledger: ledger, catalogue: try Self.catalogue(), configuration: .init(keys: [key]), logger: .disabled,
            metrics: Metrics())
        let feed = RedisSubscriber(
            configuration, logger: .disabled, metrics: nil, channels: [jobs.settledChannel],
            onMessage: { _, ids in
                api.settled(ids.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) })
            }, onResubscribed: { api.feedResumed() })
        let router = Router()
        api.register(on: router)
        let front = HTTPServer(HTTPServer.Configuration(), router: router, logger: .disabled)
        feed.start()
        worker.start()
        try await TestSupport.running {
            try await body("http://127.0.0.1:\(try front.start())")
        } stop: {
            api.stopWaiting()
            _ = await front.stop(within: .seconds(2))
            await feed.stop()
            _ = await worker.stop(within: .seconds(2))
        }
    }
}

/// An API front that says what a test wants.
enum FakeFront {
    @LoopActor
    static func running(
        _ answer: @escaping @LoopActor @Sendable (IncomingRequest) async -> OutgoingResponse,
        body: @LoopActor (_ url: String) async throws -> Void
    ) async throws {
        let router = Router()
        router.on(.post, "/shop/purchase", bodyBytesMax: 1 << 20, answer)
        let server = HTTPServer(HTTPServer.Configuration(), router: router, logger: .disabled)
        let port = try server.start()
        try await TestSupport.running {
            try await body("http://127.0.0.1:\(port)")
        } stop: {
            _ = await server.stop(within: .milliseconds(100))
        }
    }
}
