import Foundation
import HTTP
import Lab
import Redis
import ServiceRuntime
import Signing
import StoreEmulator
import TestSupport
import Testing

/// Everything that runs, and the commands to type.
@LoopActor
final class Town {
    let directory: String
    let server: RedisServer
    let emulator: StoreEmulator
    let http = HTTPClient(logger: .disabled)
    private let configuration: String

    init(_ directory: String, _ server: RedisServer) async throws {
        self.directory = directory
        self.server = server
        emulator = try StoreEmulator()
        try emulator.start()
        try emulator.writeStores(into: directory)
        configuration = directory + "/teller.json"
        try write(
            "catalogue.json",
            String(contentsOfFile: Repository.root + "/deploy/catalogue.example.json", encoding: .utf8))
        let stores = try JSONView.parse(emulator.storesConfiguration(keysIn: directory))
        let digest = Digest.hex(Digest.sha256(Array("s3cret".utf8)))
        try write(
            "teller.json",
            """
            {"redis":{"url":"\(server.url)"},"catalogue":"\(directory)/catalogue.json","log":{"format":"json"},
            "api":{"listen":"127.0.0.1:0","operationsListen":"127.0.0.1:0","stopSeconds":5,
            "keys":[{"id":"game","sha256":"\(digest)","scopes":["submit","read"]}]},
            "worker":{"stopSeconds":5},
            "apple":\(try stores.required("apple").serialized()),"google":\(try stores.required("google").serialized())}
            """)
    }

    static func run(_ body: (Town) async throws -> Void) async throws {
        try await TellerProgram.withDirectory { directory in
            try await RedisServer.running { server in
                let town = try await Town(directory, server)
                try await TestSupport.running {
                    try await body(town)
                } stop: {
                    await town.close()
                }
            }
        }
    }

    private func close() async {
        await http.stop()
        await emulator.stop()
    }

    func write(_ name: String, _ text: String) throws {
        try text.write(toFile: "\(directory)/\(name)", atomically: true, encoding: .utf8)
    }

    func teller(_ words: String...) async throws -> TellerProgram.Run {
        try await TellerProgram.run(words + ["--config", configuration])
    }

    func withRedis(_ body: (RedisConnection) async throws -> Void) async throws {
        let redis = RedisConnection(
            RedisConfiguration(address: try RedisAddress(url: server.url)), logger: .disabled, metrics: nil)
        redis.start()
        try await redis.ready(within: .seconds(20))
        try await body(redis)
        await redis.stop()
    }

    func start(_ command: String) throws -> RunningProgram {
        try RunningProgram(
            [command, "--config", configuration], environment: [:], directory: directory, name: command)
    }

    /// The fields of the first log line about an event; waits for it.
    func line(_ event: String, in program: RunningProgram) async throws -> JSONView {
        var found: JSONView?
        try await eventually(within: .seconds(60), "the line \(event)") {
            found = program.errors.split(separator: "\n").lazy.compactMap { try? JSONView.parse(String($0)) }
                .first { (try? $0.string("event")) == event }
            return found != nil
        }
        return try #require(found)
    }

    func get(_ port: Int64, _ path: String) async throws -> (status: Int, text: String) {
        let answer = try await http.send(
            OutgoingRequest(
                .get, "http://127.0.0.1:\(port)\(path)", headers: [("Authorization", "Bearer game.s3cret")]))
        return (answer.status, String(decoding: answer.body, as: UTF8.self))
    }

    func purchase(_ port: Int64, _ store: EmulatedStore, product: String = "gems_pack_medium") async throws
        -> String
    {
        let name = store == .apple ? "com.mygame.gems.500" : "gems_500"
        let bought = try emulator.purchase(PurchaseRequest(store: store, player: "ada", storeProductID: name))
        let body = #"{"userId":"ada","productId":"\#(product)","receiptData":"\#(bought.receipt)"}"#
        let answer = try await http.send(
            OutgoingRequest(
                .post, "http://127.0.0.1:\(port)/shop/purchase",
                headers: [
                    ("Authorization", "Bearer game.s3cret"), ("Content-Type", "application/json"),
                    ("Prefer", "wait=30"),
                ], body: Array(body.utf8), deadline: .seconds(60)))
        return "\(answer.status) " + String(decoding: answer.body, as: UTF8.self)
    }
}
