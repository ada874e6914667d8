package import Commerce
import Foundation
import Glibc
package import HTTP
package import Redis
package import ServiceRuntime
import Signing
package import StoreEmulator

/// A whole Teller in real processes on this machine, private and on free ports, to be broken in every way.
///
/// Faults that matter are those between processes: a kill -9 in the middle of a script's round trip, a frozen worker that
/// wakes up after its lease, a Redis that comes back from its append-only file. They cannot be had from mocks inside one
/// process, so the harness starts the built `teller` beside its own executable, a redis-server and the emulated stores
/// (in its own process, whose knobs it turns), and with `usesProxy` a ``RedisProxy`` between Teller and Redis. It stops
/// what it started by process id, and the kernel does so when the harness itself dies.
@LoopActor
package final class FaultHarness {
    /// What is started.
    package struct Configuration: Sendable {
        /// API processes.
        package var apis = 1
        /// Worker processes.
        package var workers = 2
        /// Whether Teller reaches Redis through ``FaultHarness/proxy``.
        package var usesProxy = false
        /// Most receipts in flight in one worker and store.
        package var inFlightMax = 256
        /// How long a worker may take to stop.
        package var stopSeconds = 25
        /// The program under test; nil for the `teller` beside the running executable.
        package var program: String?
        /// Variables for the processes under test.
        package var environment: [String: String] = [:]
        /// Least severe level that is logged.
        package var logLevel = "info"
        /// Seeds the emulator's dice.
        package var seed: UInt64 = 1

        /// One API, two workers.
        package init() {}
    }

    /// What is on sale: each product in both stores.
    package static let catalogueJSON = """
        [{"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500",\
        "android":"gems_500"},"displayName":"500 crystals","description":"Plus 50","gemAmount":500,"bonusGemAmount":50,\
        "position":2,"isVisible":true},
        {"productId":"gems_pack_small","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.100",\
        "android":"gems_100"},"displayName":"100 crystals","description":"A handful","gemAmount":100,\
        "bonusGemAmount":0,"position":1,"isVisible":true}]
        """

    /// Everything the run writes: data, logs, configuration.
    package let directory: String
    /// The Redis.
    package let redis: RedisProcess
    /// The stores.
    package let emulator: StoreEmulator
    /// Between Teller and Redis, when the configuration asks for it.
    package let proxy: RedisProxy?
    /// The API processes.
    package let apis: [TellerProcess]
    /// The worker processes.
    package let workers: [TellerProcess]
    /// What is on sale.
    package let catalogue: Catalogue
    /// `id.secret`, for all of the API.
    package let apiKey: String
    /// For looking at Teller from outside.
    package let http = HTTPClient(logger: .disabled)
    /// For looking at Redis from outside, never through the proxy.
    package let connection: RedisConnection

    private let configuration: Configuration
    private let program: String

    /// Prepares everything; nothing runs yet but the emulator's port.
    package init(_ configuration: Configuration = Configuration()) throws {
        self.configuration = configuration
        let temporary = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(temporary)/teller-faults-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw LabError.stage("mkdtemp: \(String(cString: strerror(errno)))") }
        let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        self.directory = directory
        let program = try configuration.program ?? Self.besideThisExecutable("teller")
        self.program = program
        redis = try RedisProcess(directory: directory + "/redis")
        var stores = StoreEmulator.Configuration()
        stores.seed = configuration.seed
        emulator = try StoreEmulator(stores)
        proxy = configuration.usesProxy ? try RedisProxy(to: redis.port) : nil
        apis = try (1...max(1, configuration.apis)).map {
            try TellerProcess(
                .api, "api-\($0)", program: program, directory: directory, environment: configuration.environment)
        }
        workers = try (1...max(1, configuration.workers)).map {
            try TellerProcess(
                .worker, "worker-\($0)", program: program, directory: directory,
                environment: configuration.environment)
        }
        catalogue = try Catalogue(json: Array(Self.catalogueJSON.utf8))
        apiKey = "lab." + String(UInt64.random(in: .min ... .max), radix: 16) + "0123456789abcdef"
        connection = RedisConnection(
            RedisConfiguration(address: try RedisAddress(url: "redis://127.0.0.1:\(redis.port)/0")),
            logger: .disabled, metrics: nil)
    }

    /// The processes under test.
    package var processes: [TellerProcess] { apis + workers }
    /// Base URLs of the APIs.
    package var apiURLs: [String] { apis.map { "http://127.0.0.1:\($0.port)" } }
    /// Redis, without the proxy.
    package var redisURL: String { "redis://127.0.0.1:\(redis.port)/0" }

    /// Starts everything and returns when all of it is ready.
    package func start() async throws {
        try await redis.start()
        try emulator.start()
        try writeFiles()
        let initialise = try ChildProcess(
            [program, "init", "--config", directory + "/teller.json"],
            environment: ["TELLER_REDIS_URL": redisURL], log: directory + "/init.log")
        guard await initialise.waitForEnd(within: .seconds(30)) else { throw LabError.stage("teller init hangs") }
        connection.start()
        try await connection.ready(within: .seconds(10))
        for process in processes { try process.start() }
        for process in processes { try await process.waitUntilReady(http) }
    }

    /// Ends everything; the directory stays when `keepingFiles`, for whoever wants to read the logs.
    package func stop(keepingFiles: Bool = false) async {
        for process in processes { await process.kill() }
        proxy?.stop()
        await connection.stop()
        await http.stop()
        await emulator.stop()
        await redis.kill()
        if !keepingFiles { try? FileManager.default.removeItem(atPath: directory) }
    }

    /// Runs `body` with a started harness and ends it afterwards, also when `body` throws.
    package static func running<Answer: Sendable>(
        _ configuration: Configuration = Configuration(),
        _ body: @LoopActor (FaultHarness) async throws -> Answer
    ) async throws -> Answer {
        let harness = try FaultHarness(configuration)
        do {
            try await harness.start()
            let answer = try await body(harness)
            await harness.stop()
            return answer
        } catch {
            await harness.stop(keepingFiles: true)
            throw LabError.stage("\(error) (files: \(harness.directory))")
        }
    }

    private static func besideThisExecutable(_ name: String) throws(LabError) -> String {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw .stage("/proc/self/exe cannot be read")
        }
        let path = String(own[..<(own.lastIndex(of: "/") ?? own.startIndex)]) + "/" + name
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw .stage("\(path) is not there: build it first (swift build --product \(name))")
        }
        return path
    }

    private func writeFiles() throws {
        try emulator.writeStores(into: directory)
        try Self.catalogueJSON.write(toFile: directory + "/catalogue.json", atomically: true, encoding: .utf8)
        let secret = apiKey.drop { $0 != "." }.dropFirst()
        let stores = try JSONView.parse(emulator.storesConfiguration(keysIn: directory))
        var json = JSONWriter(capacity: 2048)
        json.object { json in
            json.member(
                "redis",
                object: { $0.member("url", "redis://127.0.0.1:\(proxy?.port ?? redis.port)/0") })
            json.member("catalogue", directory + "/catalogue.json")
            json.member(
                "log",
                object: { json in
                    json.member("format", "json")
                    json.member("level", configuration.logLevel)
                })
            json.member("api", object: { json in writeAPI(String(secret), to: &json) })
            json.member("worker", object: { json in writeWorker(to: &json) })
            json.member("sandbox", object: { $0.member("credit", "nobody") })
            for name in ["apple", "google"] { json.member(dynamic: name, raw: stores[name]?.serialized() ?? "{}") }
        }
        try json.text.write(toFile: directory + "/teller.json", atomically: true, encoding: .utf8)
    }

    private func writeAPI(_ secret: String, to json: inout JSONWriter) {
        json.member(
            "keys",
            array: { json in
                json.object { json in
                    json.member("id", "lab")
                    json.member("sha256", Digest.hex(Digest.sha256(Array(secret.utf8))))
                    json.member(
                        "scopes",
                        array: { json in
                            json.element("submit")
                            json.element("read")
                        })
                    json.member("waitsMax", 20_000)
                    json.member("requestsPerSecondMax", 1_000_000)
                }
            })
    }

    private func writeWorker(to json: inout JSONWriter) {
        json.member(
            "inFlight",
            object: { json in
                json.member("apple", configuration.inFlightMax)
                json.member("google", configuration.inFlightMax)
                json.member("google-duty", 64)
            })
        json.member("stopSeconds", configuration.stopSeconds)
    }
}
