@_spi(Verification) import Commerce
import Ledger
import Redis
import ServiceRuntime
import Signing
import TestSupport

/// A ledger in a private redis-server of its own.
@LoopActor
struct LedgerFixture {
    static let incarnation = "test-incarnation"
    static let buckets = 16

    let server: RedisServer
    let redis: RedisConnection
    let ledger: Ledger

    /// Runs `body` on a fresh server whose meta key is set, and stops everything afterwards.
    static func running(
        _ extraLines: [String] = [], _ body: @escaping @LoopActor (LedgerFixture) async throws -> Void
    ) async throws {
        try await RedisServer.running(extraLines) { server in
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url))
            let redis = RedisConnection(configuration, logger: .disabled, metrics: nil)
            redis.start()
            try await redis.ready(within: .seconds(10))
            let fixture = LedgerFixture(
                server: server, redis: redis,
                ledger: Ledger(redis: redis, configuration: .init(buckets: buckets, incarnation: incarnation)))
            _ = try await fixture.send("HSET", "teller:{0}:meta", "incarnation", .string(incarnation))
            try await TestSupport.running {
                try await body(fixture)
            } stop: {
                await redis.stop()
            }
        }
    }

    func send(_ arguments: RedisArgument...) async throws -> RedisValue { try await redis.send(arguments) }

    /// Claims and credits.
    func finish(_ purchase: VerifiedPurchase, _ player: PlayerID) async throws -> CreditOutcome {
        guard try await ledger.claim(purchase.key, for: player) == .mine else { throw NotMine() }
        return try await ledger.credit(purchase, to: player, submission: Self.submission)
    }

    /// Credits all at once; results in order.
    func finishTogether(_ purchases: [(VerifiedPurchase, PlayerID)]) async -> [Result<CreditOutcome, any Error>] {
        await withTaskGroup(of: (Int, Result<CreditOutcome, any Error>).self) { group in
            for (index, (purchase, player)) in purchases.enumerated() {
                group.addTask { @LoopActor @Sendable in
                    do {
                        return (index, .success(try await finish(purchase, player)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            var results = [Result<CreditOutcome, any Error>](repeating: .failure(NotMine()), count: purchases.count)
            for await (index, result) in group { results[index] = result }
            return results
        }
    }

    /// How often an inner or outer command ran since the server started.
    func calls(_ command: String) async throws -> Int {
        let text = try await send("INFO", "commandstats").text ?? ""
        guard let line = text.split(separator: "\r\n").first(where: { $0.hasPrefix("cmdstat_\(command):calls=") }),
            let count = line.split(separator: "=")[1].split(separator: ",").first
        else { return 0 }
        return Int(count) ?? 0
    }

    struct NotMine: Error {}

    static let submission = SubmissionID(digest: Array(0...15))

    static func player(_ text: String = "player-42") throws -> PlayerID { try PlayerID(validating: text) }

    static func product(_ json: String) throws -> Product {
        guard let product = try Catalogue(json: Array("[\(json)]".utf8)).products.first else { throw NotMine() }
        return product
    }

    /// A sandbox purchase at Apple of a product that grants `gems`.
    static func purchase(_ transaction: String, gems: Int64 = 550, quantity: Int64 = 1) throws -> VerifiedPurchase {
        try purchase(
            transaction, quantity: quantity,
            of: product(
                """
                {"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500"},\
                "displayName":"500 crystals","gemAmount":\(gems)}
                """))
    }

    /// A sandbox purchase at Apple of a non-consumable.
    static func pass(_ transaction: String, gems: Int64 = 0, id: String = "gold_pass") throws -> VerifiedPurchase {
        try purchase(
            transaction, quantity: 1,
            of: product(
                """
                {"productId":"\(id)","type":"iap_non_consumable","storeProductId":{"ios":"com.mygame.\(id)"},\
                "displayName":"Pass","gemAmount":\(gems)}
                """))
    }

    private static func purchase(
        _ transaction: String, quantity: Int64, of product: Product
    ) throws -> VerifiedPurchase {
        let id = try TransactionID(validating: transaction)
        guard let storeID = product.storeProductIDs[.appStore] else { throw NotMine() }
        return VerifiedPurchase(
            key: .apple(environment: .sandbox, transactionID: id, sha256: { Digest.sha256($0) }), store: .appStore,
            environment: .sandbox, storeProductID: storeID, product: product, quantity: quantity,
            grants: try product.grants(quantity: quantity), transactionID: id, originalTransactionID: id,
            purchasedAtMilliseconds: 1_793_000_000_000)
    }
}

extension CreditOutcome {
    var isNew: Bool { if case .credited = self { true } else { false } }
}
