@_spi(Verification) import Commerce
import Glibc
import HTTP
import Jobs
import Ledger
import Redis
import ServiceRuntime
import Signing
import TestSupport

@testable import ShopAPI

/// A shop that is open: the API on a real HTTP server, a partition of its own in a real Redis, and a worker whose part
/// the test plays.
@LoopActor
final class Shop {
    /// What a shop is made with.
    struct Plan: Sendable {
        var keys = [
            APIKey(id: "game", secretSHA256: Digest.sha256(Array("s3cret".utf8)), scopes: [.submit, .read])
        ]
        var waitDefault = Duration.milliseconds(300)
        var waitMax = Duration.seconds(30)
        var pendingMax = 1000
    }

    static let signedReceipt = "eyJhbGciOiJFUzI1NiJ9.eyJ0IjoxfQ.c2ln"
    static let token = "aaaabbbbccccddddeeeeffff.AO-J1Omadeup"
    private static let incarnation = "00000000000000000000000000000001"

    let redis: RedisConnection
    /// As the front has it.
    let jobs: JobQueue
    /// As a worker has it.
    let worker: JobQueue
    let ledger: Ledger
    let api: ShopAPI
    let port: Int
    private(set) var feed: RedisSubscriber
    private let partition: Int
    private let redisConfiguration: RedisConfiguration
    private let server: HTTPServer
    private let http = HTTPClient(logger: .disabled)

    private static var partitions = 0
    private static let shared = Task { try await RedisServer() }

    private init(_ plan: Plan, _ url: String) async throws {
        Self.partitions += 1
        partition = Self.partitions
        redisConfiguration = RedisConfiguration(address: try RedisAddress(url: url))
        redis = RedisConnection(redisConfiguration, logger: .disabled, metrics: nil)
        redis.start()
        try await redis.ready(within: .seconds(20))
        _ = try await redis.send([
            "HSET", .string("teller:{\(partition)}:meta"), "incarnation", .string(Self.incarnation), "partitions", "1",
            "buckets", "16", "schema", "1", "production", "0", "createdAtMs", "1",
        ])
        var limits = JobQueue.Configuration()
        limits.pendingMax = plan.pendingMax
        jobs = JobQueue(
            redis: redis, partition: partition, incarnation: Self.incarnation, worker: nil, configuration: limits,
            logger: .disabled, metrics: nil)
        worker = JobQueue(
            redis: redis, partition: partition, incarnation: Self.incarnation, worker: WorkerID(), logger: .disabled,
            metrics: nil)
        ledger = Ledger(
            redis: redis, configuration: .init(partition: partition, buckets: 16, incarnation: Self.incarnation))
        let api = ShopAPI(
            jobs: jobs, ledger: ledger, catalogue: try Self.catalogue(),
            configuration: .init(keys: plan.keys, waitDefault: plan.waitDefault, waitMax: plan.waitMax),
            logger: .disabled, metrics: Metrics())
        self.api = api
        feed = Self.feed(api, jobs, redisConfiguration)
        let router = Router()
        api.register(on: router)
        server = HTTPServer(HTTPServer.Configuration(), router: router, logger: .disabled)
        port = try server.start()
        feed.start()
    }

    private static func feed(_ api: ShopAPI, _ jobs: JobQueue, _ configuration: RedisConfiguration) -> RedisSubscriber {
        RedisSubscriber(
            configuration, logger: .disabled, metrics: nil, channels: [jobs.settledChannel],
            onMessage: { _, ids in
                api.settled(ids.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) })
            }, onResubscribed: { api.feedResumed() })
    }

    /// Runs `body` in a fresh partition of the server that the tests of this module share, or of `url`.
    static func run(
        _ plan: Plan = Plan(), on url: String? = nil, _ body: @LoopActor (Shop) async throws -> Void
    ) async throws {
        let shop: Shop
        if let url { shop = try await Shop(plan, url) } else { shop = try await Shop(plan, shared.value.url) }
        try await TestSupport.running {
            try await body(shop)
        } stop: {
            await shop.close()
        }
    }

    private func close() async {
        api.stopWaiting()
        await http.stop()
        _ = await server.stop(within: .seconds(2))
        await feed.stop()
        await redis.stop()
    }

    func stopFeed() async { await feed.stop() }

    func startFeed() {
        feed = Self.feed(api, jobs, redisConfiguration)
        feed.start()
    }

    // MARK: - Asking

    /// What came back.
    struct Answer: Sendable {
        let http: HTTPAnswer

        var status: Int { http.status }
        var json: JSONView? { try? JSONView.parse(http.body) }
        func text(_ key: String) -> String? { (try? json?.optionalString(key)) ?? nil }
        func number(_ key: String) -> Int64? { (try? json?.optionalInt64(key)) ?? nil }
        var reason: String? { text("reason") }
        var action: String? { text("clientAction") }
        /// `status reason clientAction`, to compare in one go.
        var summary: String { "\(status) \(reason ?? text("status") ?? "-") \(action ?? "-")" }
    }

    func send(
        _ method: HTTPMethod, _ path: String, key: String? = "Bearer game.s3cret", headers: [(String, String)] = [],
        body: [UInt8]? = nil
    ) async throws -> Answer {
        var all = headers
        if let key { all.append(("Authorization", key)) }
        let answer = try await http.send(
            OutgoingRequest(
                method, "http://127.0.0.1:\(port)\(path)", headers: all, body: body, deadline: .seconds(60)))
        return Answer(http: answer)
    }

    func post(
        _ body: String, wait: String? = "wait=0", key: String? = "Bearer game.s3cret",
        type: String? = "application/json"
    ) async throws -> Answer {
        try await post(bytes: Array(body.utf8), wait: wait, key: key, type: type)
    }

    func post(
        bytes: [UInt8], wait: String? = "wait=0", key: String? = "Bearer game.s3cret",
        type: String? = "application/json"
    ) async throws -> Answer {
        var headers: [(String, String)] = []
        if let type { headers.append(("Content-Type", type)) }
        if let wait { headers.append(("Prefer", wait)) }
        return try await send(.post, "/shop/purchase", key: key, headers: headers, body: bytes)
    }

    func get(_ path: String, key: String? = "Bearer game.s3cret") async throws -> Answer {
        try await send(.get, path, key: key)
    }

    /// A good request of a player.
    static func order(_ player: String = "ada", receipt: String = Shop.signedReceipt) -> String {
        #"{"userId":"\#(player)","productId":"gems_pack_medium","receiptData":"\#(receipt)"}"#
    }

    /// The submission that an order is.
    static func id(of order: String) throws -> SubmissionID {
        let submission = try ReceiptSubmission(json: JSONView.parse(order))
        return SubmissionID(digest: Digest.sha256(submission.canonicalBytes))
    }

    // MARK: - Playing the worker

    /// Waits until there is a receipt, and leases it.
    func lease() async throws -> Lease {
        var leased: Lease?
        try await eventually("a receipt to lease") {
            // Redis may just have been restarted.
            leased = (try? await self.worker.lease(queue: "apple", max: 1))?.first
            return leased != nil
        }
        guard let leased else { throw Nothing() }
        return leased
    }

    /// Credits a purchase and settles its receipt, as a worker does.
    func credit(_ lease: Lease, transaction: String, to player: String = "ada", quantity: Int64 = 1) async throws {
        guard let name = lease.submission, let id = SubmissionID(rawValue: name) else { throw Nothing() }
        let credit = try await credit(transaction, to: player, id, quantity: quantity)
        let status = SubmissionStatus(.credited, player: try PlayerID(validating: player), credits: [credit])
        _ = try await worker.settle(lease, status: status.json)
    }

    @discardableResult
    func credit(
        _ transaction: String, to player: String = "ada", _ id: SubmissionID = SubmissionID(digest: Array(0...15)),
        quantity: Int64 = 1
    ) async throws -> SubmissionStatus.Credit {
        let player = try PlayerID(validating: player)
        let purchase = try Self.purchase(transaction, quantity: quantity)
        guard try await ledger.claim(purchase.key, for: player) == .mine,
            case .credited(let position, _) = try await ledger.credit(purchase, to: player, submission: id)
        else { throw Nothing() }
        return SubmissionStatus.Credit(
            transactionID: transaction, product: purchase.product.id, grants: purchase.grants, position: position,
            wasAlreadyCredited: false)
    }

    func settle(
        _ lease: Lease, _ state: SubmissionStatus.State, _ reason: RejectionReason? = nil, player: String = "ada"
    ) async throws {
        let status = SubmissionStatus(state, player: try PlayerID(validating: player), reason: reason)
        _ = try await worker.settle(lease, status: status.json)
    }

    private static func purchase(_ transaction: String, quantity: Int64) throws -> VerifiedPurchase {
        let id = try TransactionID(validating: transaction)
        guard let product = try catalogue().product(try ProductID(validating: "gems_pack_medium")),
            let storeID = product.storeProductIDs[.appStore]
        else { throw Nothing() }
        return VerifiedPurchase(
            key: .apple(environment: .production, transactionID: id, sha256: { Digest.sha256($0) }), store: .appStore,
            environment: .production, storeProductID: storeID, product: product, quantity: quantity,
            grants: try product.grants(quantity: quantity), transactionID: id, originalTransactionID: id,
            purchasedAtMilliseconds: 1_793_000_000_000)
    }

    struct Nothing: Error {}

    /// Puts something else where the wallet should be.
    func damageWallet(of player: String) async throws {
        _ = try await redis.send(["SET", .string("teller:{\(partition)}:player:\(player)"), "not a hash"])
    }

    // MARK: - Looking

    func pending(_ queue: String = "apple") async throws -> Int { try await jobs.depth(of: queue).pending }

    /// Every key of the partition with its serialised value.
    func snapshot() async throws -> [String: RedisValue] {
        let keys = try await redis.send(["KEYS", .string("teller:{\(partition)}:*")]).elements ?? []
        var snapshot: [String: RedisValue] = [:]
        for key in keys.compactMap(\.text) { snapshot[key] = try await redis.send(["DUMP", .string(key)]) }
        return snapshot
    }

    var waiting: Int { api.waiters.count }

    static func catalogue(_ extra: String = "") throws -> Catalogue {
        let json = """
            [{"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500",\
            "android":"gems_500"},"displayName":"500 crystals","gemAmount":500,"bonusGemAmount":50,"position":2},\
            {"productId":"android_only","type":"iap_consumable","storeProductId":{"android":"gems_7"},\
            "displayName":"7 crystals","gemAmount":7,"position":5}\(extra)]
            """
        return try Catalogue(json: Array(json.utf8))
    }
}

/// A TCP connection that sends what it is told and never reads: requests of broken and of vanishing clients.
@LoopActor
final class Sender {
    private var descriptor: Int32

    init(port: Int) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        // The kernel accepts on behalf of the server, so neither this nor a short send waits for the loop.
        let status = withUnsafeBytes(of: &address) { bytes in
            bytes.baseAddress.map {
                connect(descriptor, $0.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            } ?? -1
        }
        guard status == 0 else { throw Shop.Nothing() }
    }

    deinit { if descriptor >= 0 { Glibc.close(descriptor) } }

    func send(_ text: String) {
        let bytes = Array(text.utf8)
        _ = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    }

    func close() {
        Glibc.close(descriptor)
        descriptor = -1
    }

    /// A whole request for a purchase.
    static func request(_ body: String, wait: Int) -> String {
        """
        POST /shop/purchase HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer game.s3cret\r\n\
        Content-Type: application/json\r\nPrefer: wait=\(wait)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
        """
    }
}
