import Glibc
import HTTP
import Jobs
import Operations
import ReceiptWorker
import Redis
import ServiceRuntime
import Verification

let workerCommand = Command(
    "worker", "verifies receipts with Apple and Google and credits them",
    details: """
        Run as many as you like, anywhere; they share the work and take over from each other. SIGTERM: leases nothing
        more, finishes or gives back what it holds, ends. SIGHUP: reads the catalogue again.
        """,
    options: Foundations.options + [
        .init("operations-listen", "ADDRESS", "overrides worker.operationsListen; port 0 takes a free one")
    ]
) { arguments in
    let foundations = try Foundations(arguments, label: "worker", part: .whole)
    let shutdown = Shutdown.onSignals()
    let group = ServiceGroup(
        logger: foundations.logger, stopWithin: foundations.configuration.worker.stopDeadline + .seconds(3),
        systemd: .fromEnvironment())
    let address = try ListenOverrides.address(arguments, "operations-listen")
    let process = WorkerProcess(foundations, address ?? foundations.configuration.worker.operationsListen, shutdown)
    process.add(to: group)
    let code = await group.run(until: shutdown)
    foundations.sink.flush()
    return process.hasFailed ? 1 : code
}

/// The parts of one worker process, in the order in which they start.
@LoopActor
private final class WorkerProcess {
    private let foundations: Foundations
    private let address: ListenAddress
    private let shutdown: Shutdown
    private let http: HTTPClient
    private var jobs: JobQueue?
    private var worker: ReceiptWorker?
    private var operations: OperationsListener?
    private var reload: SignalWatch?

    init(_ foundations: Foundations, _ address: ListenAddress, _ shutdown: Shutdown) {
        self.foundations = foundations
        self.address = address
        self.shutdown = shutdown
        var configuration = HTTPClient.Configuration()
        configuration.certificateAuthorityFile = foundations.configuration.certificateAuthoritiesPath
        configuration.proxy = foundations.configuration.proxyURL
        // Each receipt and duty in flight is one request; beside them only tokens are asked for.
        configuration.requestsInFlightMax =
            foundations.configuration.worker.inFlightMax.values.reduce(0, +) + 16
        http = HTTPClient(configuration, logger: foundations.logger, metrics: foundations.metrics)
        // From the beginning: see APIProcess.
        reload = SignalWatch(signals: [SIGHUP]) { [weak self] _ in
            guard let self, let worker else { return }
            self.foundations.reloadCatalogue(after: worker.catalogue) { worker.catalogue = $0 }
        }
    }

    var hasFailed: Bool { worker?.failure != nil }

    func add(to group: ServiceGroup) {
        let foundations = foundations
        let http = http
        group.add("redis", start: { try await self.connect() }, stop: { _ in await foundations.redis.stop() })
        group.add("http client", stop: { _ in await http.stop() })
        group.add("operations", start: { try self.listen() }, stop: { await self.operations?.stop(within: $0) })
        group.add("worker", start: { self.worker?.start() }, stop: { await self.stop(within: $0) })
    }

    private func connect() async throws {
        let configuration = foundations.configuration
        // A broken one ends the start before Redis is waited for; what counts is what is there afterwards.
        try foundations.catalogue()
        guard let verification = configuration.verification else {
            preconditionFailure("a worker reads the whole configuration")
        }
        let verifier = try PurchaseVerifier(
            verification, http: http, logger: foundations.logger, metrics: foundations.metrics)
        let meta = try await foundations.connect()
        let jobs = foundations.jobs(meta, worker: WorkerID())
        let inFlight = configuration.worker.inFlightMax.compactMap { name, max in
            WorkQueue(rawValue: name).map { ($0, max) }
        }
        let worker = ReceiptWorker(
            jobs: jobs, ledger: foundations.ledger(meta), verifier: verifier,
            catalogue: try foundations.catalogueInForce(),
            configuration: .init(inFlightMax: Dictionary(uniqueKeysWithValues: inFlight)),
            logger: foundations.logger, metrics: foundations.metrics, failed: { _ in self.shutdown.request() })
        self.jobs = jobs
        self.worker = worker
    }

    private func listen() throws {
        let (jobs, foundations) = (jobs, foundations)
        let operations = OperationsListener(
            .at(address), metrics: foundations.metrics, logger: foundations.logger,
            readiness: {
                // PING on another connection stays green while leasing hangs; only a lease that came back counts.
                var missing: [String: String] = [:]
                missing["redis"] = foundations.redisTrouble
                if let last = jobs?.lastLeaseRoundTrip {
                    if last.elapsed >= .seconds(5) { missing["lease"] = "none has come back for 5 s" }
                } else {
                    missing["lease"] = "none has come back yet"
                }
                return missing
            })
        let port = try operations.start()
        foundations.logger.notice("operations listener", ["port": .count(port)])
        self.operations = operations
    }

    private func stop(within deadline: Duration) async {
        guard let worker else { return }
        let report = await worker.stop(within: max(deadline - .seconds(3), .seconds(1)))
        foundations.logger.notice(
            "worker drained",
            [
                "finished": .count(report.finished), "returned": .count(report.returned),
                "left": .count(report.left),
            ])
    }
}
