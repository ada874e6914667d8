import Glibc
import HTTP
import Jobs
import Ledger
import Operations
import Redis
import ServiceRuntime
import ShopAPI

let apiCommand = Command(
    "api", "serves the HTTP API: takes receipts, answers with balances",
    details: """
        Several of them may share one port (SO_REUSEPORT). SIGTERM: takes no more connections, answers what it holds,
        ends. SIGHUP: reads the catalogue again; a broken one is refused and the old one stays.
        """,
    options: Foundations.options + [
        .init("listen", "ADDRESS", "overrides api.listen, for example 127.0.0.1:8080; port 0 takes a free one"),
        .init("operations-listen", "ADDRESS", "overrides api.operationsListen"),
    ]
) { arguments in
    let foundations = try Foundations(arguments, label: "api")
    let shutdown = Shutdown.onSignals()
    let group = ServiceGroup(
        logger: foundations.logger, stopWithin: foundations.configuration.api.stopDeadline,
        systemd: .fromEnvironment())
    let process = APIProcess(foundations, try ListenOverrides(arguments, foundations.configuration.api))
    process.add(to: group)
    let code = await group.run(until: shutdown)
    foundations.sink.flush()
    return code
}

/// The parts of one API process, in the order in which they start.
@LoopActor
private final class APIProcess {
    private let foundations: Foundations
    private let addresses: ListenOverrides
    private var api: ShopAPI?
    private var server: HTTPServer?
    private var feed: RedisSubscriber?
    private var operations: OperationsListener?
    private var reload: SignalWatch?
    private var gauges: QueueGauges?

    init(_ foundations: Foundations, _ addresses: ListenOverrides) {
        self.foundations = foundations
        self.addresses = addresses
        // From the beginning: a reload while Redis is waited for must not end the process, which is what SIGHUP does to
        // those who do not listen.
        reload = SignalWatch(signals: [SIGHUP]) { [weak self] _ in
            guard let self, let api else { return }
            self.foundations.reloadCatalogue(after: api.catalogue) { api.catalogue = $0 }
        }
    }

    func add(to group: ServiceGroup) {
        let foundations = foundations
        group.add("redis", start: { try await self.connect() }, stop: { _ in await foundations.redis.stop() })
        group.add("settlement feed", start: { self.feed?.start() }, stop: { _ in await self.feed?.stop() })
        group.add("queue gauges", start: { self.gauges?.start() }, stop: { _ in self.gauges?.stop() })
        group.add(
            "operations", start: { try self.listenForOperations() }, stop: { await self.operations?.stop(within: $0) })
        group.add("http", start: { try self.listen() }, stop: { await self.stop(within: $0) })
    }

    private func connect() async throws {
        // A broken one ends the start before Redis is waited for; what counts is what is there afterwards.
        try foundations.catalogue()
        let meta = try await foundations.connect()
        let jobs = foundations.jobs(meta)
        let api = ShopAPI(
            jobs: jobs, ledger: foundations.ledger(meta), catalogue: try foundations.catalogueInForce(),
            configuration: .init(keys: foundations.configuration.api.callers.map(APIKey.init)),
            logger: foundations.logger, metrics: foundations.metrics)
        self.api = api
        gauges = QueueGauges(jobs, metrics: foundations.metrics, logger: foundations.logger)
        feed = RedisSubscriber(
            foundations.redisConfiguration, logger: foundations.logger, metrics: foundations.metrics,
            channels: [jobs.settledChannel],
            onMessage: { _, ids in
                api.settled(ids.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) })
            }, onResubscribed: { api.feedResumed() })
    }

    private func listenForOperations() throws {
        let foundations = foundations
        let operations = OperationsListener(
            .at(addresses.operations), metrics: foundations.metrics, logger: foundations.logger,
            readiness: { (foundations.redisTrouble ?? self.gauges?.trouble).map { ["redis": $0] } ?? [:] })
        let port = try operations.start()
        foundations.logger.notice("operations listener", ["port": .count(port)])
        self.operations = operations
    }

    private func listen() throws {
        let router = Router()
        api?.register(on: router)
        var configuration = HTTPServer.Configuration.at(addresses.main)
        configuration.reusePort = true
        let server = HTTPServer(
            configuration, router: router, logger: foundations.logger, metrics: foundations.metrics)
        let port = try server.start()
        foundations.logger.notice("api listener", ["address": .string(addresses.main.host), "port": .count(port)])
        self.server = server
    }

    private func stop(within deadline: Duration) async {
        api?.stopWaiting()
        guard let report = await server?.stop(within: deadline) else { return }
        foundations.logger.notice(
            "api drained", ["answered": .count(report.answered), "abandoned": .count(report.abandoned)])
    }
}

/// Where a process listens: the configuration, unless the command line says otherwise.
struct ListenOverrides {
    let main: ListenAddress
    let operations: ListenAddress

    init(_ arguments: Arguments, _ configuration: TellerConfiguration.API) throws {
        main = try Self.address(arguments, "listen") ?? configuration.listen
        operations = try Self.address(arguments, "operations-listen") ?? configuration.operationsListen
    }

    static func address(_ arguments: Arguments, _ name: String) throws -> ListenAddress? {
        guard let text = arguments.string(name) else { return nil }
        guard let address = ListenAddress(text) else {
            throw UsageError("--\(name): must be address:port, for example 127.0.0.1:8080")
        }
        return address
    }
}

extension HTTPServer.Configuration {
    static func at(_ address: ListenAddress) -> HTTPServer.Configuration {
        var configuration = HTTPServer.Configuration()
        configuration.host = address.host
        configuration.port = address.port
        return configuration
    }
}

extension APIKey {
    fileprivate init(_ caller: TellerConfiguration.Caller) {
        self.init(
            id: caller.id, secretSHA256: caller.secretSHA256,
            scopes: Set(caller.scopes.compactMap(Scope.init)), notAfterSeconds: caller.notAfterSeconds,
            requestsPerSecondMax: caller.requestsPerSecondMax, waitsMax: caller.waitsMax)
    }
}
