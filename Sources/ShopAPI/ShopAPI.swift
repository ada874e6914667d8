public import Commerce
public import HTTP
public import Jobs
public import Ledger
public import ServiceRuntime

/// The HTTP front: checks a request, queues the receipt, and waits a moment for the worker's result.
///
/// The front never calls a store and never credits; what it can get wrong is therefore small. A receipt it queued is in
/// Redis together with its status, in one script, before anybody hears of it. A front that dies leaves nothing behind
/// but a client without an answer, which sends the same request again and gets the same submission. Answers are derived
/// from the submission's status and the wallet, read fresh, never from what the front remembers.
@LoopActor
public final class ShopAPI {
    /// Who may call, and for how long a call waits.
    public struct Configuration: Sendable {
        /// The callers.
        public var keys: [APIKey]
        /// The wait for a result when the request has no `Prefer: wait=N` (RFC 7240).
        public var waitDefault: Duration
        /// The longest wait a request may ask for; more is cut down to it.
        public var waitMax: Duration

        /// 10 s and 30 s.
        public init(keys: [APIKey], waitDefault: Duration = .seconds(10), waitMax: Duration = .seconds(30)) {
            self.keys = keys
            self.waitDefault = waitDefault
            self.waitMax = waitMax
        }
    }

    /// The products on sale; a new catalogue counts from the next request on.
    public var catalogue: Catalogue

    let jobs: JobQueue
    let ledger: Ledger
    let configuration: Configuration
    let logger: Logger
    let waiters = Waiters()
    let keys: KeyRing
    let metrics: APIMetrics
    private(set) var isStopping = false

    /// Makes the front; ``register(on:)`` puts it on a server.
    public init(
        jobs: JobQueue, ledger: Ledger, catalogue: Catalogue, configuration: Configuration, logger: Logger,
        metrics: Metrics
    ) {
        self.jobs = jobs
        self.ledger = ledger
        self.catalogue = catalogue
        self.configuration = configuration
        self.logger = logger
        keys = KeyRing(configuration.keys)
        let waiters = waiters
        self.metrics = APIMetrics(metrics) { waiters.count }
    }

    /// Puts the routes on a router.
    public func register(on router: Router) {
        // A client asks every answer what to do.
        router.problemMembers = { slug, writer in
            guard let reason = Reason.ofServer.first(where: { $0.row.slug == slug }) else { return }
            writer.member("clientAction", reason.row.action.rawValue)
        }
        router.on(.post, "/shop/purchase", bodyBytesMax: Limits.bodyWithAppReceiptBytesMax) { request in
            await self.answer(request, .submit, self.purchase)
        }
        router.on(.get, "/shop/purchases/{submissionId}") { request in await self.answer(request, .submit, self.poll) }
        router.on(.get, "/shop/wallet") { request in await self.answer(request, .read, self.wallet) }
        router.on(.get, "/shop/history") { request in await self.answer(request, .read, self.history) }
    }

    /// To be called by the settlement feed.
    public func settled(_ submissions: [String]) { waiters.settled(submissions) }

    /// To be called when the settlement feed is back after an interruption.
    public func feedResumed() { waiters.wakeAll() }

    /// Answers everybody who waits with what there is, at once; to be called before the server drains.
    public func stopWaiting() {
        isStopping = true
        waiters.wakeAll()
    }

    private func answer(
        _ request: IncomingRequest, _ scope: APIKey.Scope,
        _ body: @LoopActor (IncomingRequest, Caller) async throws -> OutgoingResponse
    ) async -> OutgoingResponse {
        do {
            let caller = try keys.admit(authorization: request.header("Authorization"), for: scope)
            return try await body(request, caller)
        } catch let refusal as Refusal {
            metrics.refused(refusal.reason.row.slug)
            return refusal.response
        } catch {
            // Redis is away or refuses. Whether or not the receipt was queued, sending it again is safe.
            metrics.refused(Reason.temporarilyUnavailable.row.slug)
            logger.warning("request failed", ["path": .string(request.path), "error": .string("\(error)")])
            return Refusal(.temporarilyUnavailable, detail: "Try again shortly.", retryAfter: .seconds(1)).response
        }
    }
}

/// What the front counts.
@LoopActor
final class APIMetrics {
    private let refusals: CounterFamily
    let queued: Counter
    let credited: Counter
    let pending: Counter

    init(_ metrics: Metrics, waiting: @escaping @LoopActor () -> Int) {
        refusals = CounterFamily(
            metrics, "teller_api_refusals_total", "Requests answered with a problem.", label: "reason")
        let help = "Purchase requests by how they were answered."
        queued = metrics.counter("teller_api_receipts_queued_total", "Receipts put on the list by this front.")
        credited = metrics.counter("teller_api_purchases_total", help, labels: ["answer": "credited"])
        pending = metrics.counter("teller_api_purchases_total", help, labels: ["answer": "pending"])
        metrics.gauge("teller_api_waiting", "Requests that wait for a result.") { Double(waiting()) }
    }

    func refused(_ reason: String) { refusals.increment(reason) }
}
