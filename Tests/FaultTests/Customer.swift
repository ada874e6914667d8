import HTTP
import Lab
import Redis
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

/// A player with a phone and a game server, who knows only what Teller publishes.
@LoopActor
struct Customer {
    let name: String
    let harness: FaultHarness
    let store: EmulatedStore
    /// The body of `POST /shop/purchase`, and the job for the list.
    let body: [UInt8]
    /// 500 gems and a bonus of 50.
    static let gems: Int64 = 550

    private static var count = 0

    /// Buys `gems_pack_medium`.
    init(_ harness: FaultHarness, at store: EmulatedStore) throws {
        Self.count += 1
        let name = "customer-\(Self.count)"
        self.name = name
        self.harness = harness
        self.store = store
        let product = store == .apple ? "com.mygame.gems.500" : "gems_500"
        let purchase = try harness.emulator.purchase(
            PurchaseRequest(store: store, player: name, storeProductID: product))
        var json = JSONWriter(capacity: 8192)
        json.object { json in
            json.member("userId", name)
            json.member("productId", "gems_pack_medium")
            json.member("receiptData", purchase.receipt)
        }
        body = json.bytes
    }

    /// Pushes the job, as any program may, over a connection made for it: one that has just lost its server pauses
    /// before it tries again, and that pause would be counted as Teller's.
    func push() async throws {
        let redis = RedisConnection(
            RedisConfiguration(address: try RedisAddress(url: harness.redisURL)), logger: .disabled, metrics: nil)
        redis.start()
        try await redis.ready(within: .seconds(5))
        _ = try await redis.send(["LPUSH", .string("teller:{0}:pending:\(store.rawValue)"), .bytes(body)])
        await redis.stop()
    }

    /// Hands the receipt in once.
    func post(wait: Int = 5, to api: Int = 0) async throws -> HTTPAnswer {
        let request = OutgoingRequest(
            .post, harness.apiURLs[api] + "/shop/purchase",
            headers: [
                ("Content-Type", "application/json"), ("Authorization", "Bearer \(harness.apiKey)"),
                ("Prefer", "wait=\(wait)"),
            ], body: body, deadline: .seconds(Double(wait) + 10))
        return try await harness.http.send(request)
    }

    /// Hands it in until the answer is "credited", as the client contract says; anything final but that is an error.
    func insist(within limit: Duration = .seconds(30)) async throws {
        try await eventually(within: limit, "\(name) hears credited") {
            guard let answer = try? await post() else { return false }
            if answer.status == 200 { return true }
            guard answer.status == 202 || answer.status >= 500 else {
                throw UnexpectedAnswer(status: answer.status, body: String(decoding: answer.body, as: UTF8.self))
            }
            return false
        }
    }

    /// What the wallet holds.
    func balance() async throws -> Int64 {
        let request = OutgoingRequest(
            .get, harness.apiURLs[0] + "/shop/wallet?userId=\(name)",
            headers: [("Authorization", "Bearer \(harness.apiKey)")], deadline: .seconds(5))
        let answer = try await harness.http.send(request)
        guard answer.status == 200 else {
            throw UnexpectedAnswer(status: answer.status, body: String(decoding: answer.body, as: UTF8.self))
        }
        let balances = try JSONView.parse(answer.body).required("balances")
        return try balances["gems"]?.int64() ?? 0
    }

    /// Waits until the gems are there.
    func waitForGems(within limit: Duration = .seconds(30)) async throws {
        try await eventually(within: limit, "\(name) has gems") { (try? await balance()) ?? 0 > 0 }
    }
}

struct UnexpectedAnswer: Error {
    let status: Int
    let body: String
}

extension FaultHarness {
    /// Nothing is lost, doubled, or left anywhere.
    func expectCleanAudit(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let audit = try await Audit.run(
            Audit.Configuration(redis: LabRedis(url: redisURL), emulatorURL: emulator.baseURL, catalogue: catalogue))
        #expect(audit.isClean, "\(audit.text)", sourceLocation: sourceLocation)
        #expect(audit.deadLetterCount == 0, sourceLocation: sourceLocation)
    }

    /// How many leases stand in the running hashes of a process.
    func leases(of process: TellerProcess) async throws -> Int64 {
        guard let pid = process.pid else { return 0 }
        var count: Int64 = 0
        let names = try await connection.send(["ZRANGE", "teller:{0}:workers", "0", "-1"], idempotent: true)
        for name in (names.elements ?? []).compactMap(\.text) where name.contains(":\(pid):") {
            count +=
                try await connection.send(["HLEN", .string("teller:{0}:running:\(name)")], idempotent: true).int ?? 0
        }
        return count
    }

    /// The worker that holds something, once one does.
    func holder() async throws -> TellerProcess {
        var holder: TellerProcess?
        try await eventually("a worker holds something") {
            for worker in workers where try await leases(of: worker) > 0 { holder = worker }
            return holder != nil
        }
        return try #require(holder)
    }

    /// The value of one series of a process's `/metrics`, summed over the labels that are not named.
    func metric(_ name: String, _ labels: String = "", of process: TellerProcess) async throws -> Double {
        let answer = try await http.send(
            OutgoingRequest(.get, "http://127.0.0.1:\(process.operationsPort)/metrics", deadline: .seconds(5)))
        return String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix(name) && $0.contains(labels) }
            .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0, +)
    }
}
