import CCurl
import Glibc
public import ServiceRuntime

/// The client for other people's servers: libcurl's multi-socket interface on the loop.
///
/// TLS certificates and host names are always checked; only `http` and `https` are spoken; redirects are reported, not
/// followed; the environment's proxy variables are ignored; every request has a deadline and every answer a size limit.
/// HTTP/2 is used where the server offers it over TLS, many requests sharing a connection.
///
/// Thousands of requests run at once: they are spread over several multi handles (see ``CurlShard``), the fullest that
/// has room first, so that few connections are opened while few are needed. All requests that begin in one turn of the
/// loop are started by one call of libcurl per multi handle.
@LoopActor
public final class HTTPClient {
    /// How a client behaves towards all servers.
    public struct Configuration: Sendable {
        /// PEM file with certificate authorities that are trusted in addition to the system's; nil for none.
        public var certificateAuthorityFile: String?
        /// Proxy URL, such as `http://proxy.internal:3128`; nil for none.
        public var proxy: String?
        /// Until the connection, TLS included, is there.
        public var connectTimeout: Duration = .seconds(3)
        /// Requests under way at once; more wait for a place, their deadlines running.
        public var requestsInFlightMax = 10_240
        /// The `User-Agent` header.
        public var userAgent = "teller"
        /// Requests, and with HTTP/1.1 connections, per multi handle; measured, see ``CurlShard``.
        package var requestsPerShardMax = 64

        /// The defaults.
        public init() {}
    }

    let sockets = SocketTable()

    private let configuration: Configuration
    private let logger: Logger
    private let metrics: HTTPClientMetrics?
    private var share: UnsafeMutableRawPointer?
    private var headerLists = HeaderListCache()
    private var origins = OriginCache()

    private var shards: [CurlShard] = []
    /// No shard before this one has room.
    private var firstWithRoom = 0
    private var kicked: [CurlShard] = []
    private var tick: LoopTimer?

    /// Every transfer there is, in use or not; this is what keeps them alive for libcurl.
    private var transfers: [Transfer] = []
    private var idle: [Transfer] = []
    private var inFlight = 0
    /// Requests that have been given to libcurl and have no answer yet.
    public var requestsInFlight: Int { inFlight }
    private var waiting = Queue<Exchange>()
    private var isStopped = false

    /// Finished transfers kept for the next requests.
    static let idleTransfersMax = 4096
    /// How late libcurl's own clocks may be served.
    static let tickInterval = Duration.milliseconds(10)

    /// Makes a client; it opens nothing before the first request.
    public init(_ configuration: Configuration = Configuration(), logger: Logger, metrics: Metrics? = nil) {
        _ = CurlLibrary.isReady
        self.configuration = configuration
        self.logger = logger
        self.metrics = metrics.map { HTTPClientMetrics($0) }
        // Names and TLS sessions are worth sharing between multi handles; connections are what must stay apart.
        share = curl_share_init()
        if let share {
            teller_share_data(share, CURL_LOCK_DATA_DNS)
            teller_share_data(share, CURL_LOCK_DATA_SSL_SESSION)
        }
    }

    isolated deinit { release() }

    /// Sends a request and waits for the whole answer.
    ///
    /// - Throws: ``HTTPClientError``; a cancelled task gets `.cancelled` at once and its connection is closed.
    public func send(_ request: OutgoingRequest) async throws(HTTPClientError) -> HTTPAnswer {
        guard !isStopped else { throw HTTPClientError(.stopped, wasNeverSent: true) }
        let exchange = Exchange(request, startedAt: clock())
        let result = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                exchange.continuation = continuation
                self.begin(exchange)
            }
        } onCancel: {
            EventLoop.shared.perform { self.cancel(exchange) }
        }
        return try result.get()
    }

    /// Ends all requests with `.stopped` and closes all connections.
    public func stop() async {
        guard !isStopped else { return }
        isStopped = true
        release()
    }

    // MARK: - Exchanges

    private func begin(_ exchange: Exchange) {
        guard !exchange.isCancelled else {
            end(exchange, .failure(HTTPClientError(.cancelled, wasNeverSent: true)))
            return
        }
        guard inFlight < configuration.requestsInFlightMax else {
            waiting.append(exchange)
            return
        }
        start(exchange)
    }

    private func start(_ exchange: Exchange) {
        guard exchange.continuation != nil else { return }
        let request = exchange.request
        guard let (origin, target) = origins.divide(request.url), let headers = headerLists.list(for: request.headers),
            HeaderList.isToken(request.method.rawValue)
        else {
            end(exchange, .failure(HTTPClientError(.invalidRequest, wasNeverSent: true)))
            return
        }
        guard let transfer = idle.popLast() ?? makeTransfer(), let shard = shardWithRoom() else {
            end(
                exchange, .failure(HTTPClientError(.other(code: Int(CURLE_OUT_OF_MEMORY.rawValue)), wasNeverSent: true))
            )
            return
        }
        let waited = Duration.milliseconds(clock() - exchange.startedAt)
        transfer.prepare(
            request, to: origin, target: target, headers: headers, deadline: request.deadline - waited)
        inFlight += 1
        transfer.exchange = exchange
        exchange.transfer = transfer
        guard shard.add(transfer) else {
            complete(transfer, .failure(HTTPClientError(.other(code: -1), wasNeverSent: true)))
            return
        }
        if tick == nil { startTick() }
    }

    /// libcurl is done with a transfer.
    func finished(_ transfer: Transfer, _ code: CURLcode) {
        let outcome = transfer.outcome(code)
        let number = transfer.shard?.number ?? firstWithRoom
        transfer.shard?.remove(transfer)
        firstWithRoom = min(firstWithRoom, number)
        complete(transfer, outcome)
    }

    private func complete(_ transfer: Transfer, _ outcome: Result<HTTPAnswer, HTTPClientError>) {
        inFlight -= 1
        let exchange = transfer.exchange
        transfer.exchange = nil
        exchange?.transfer = nil
        recycle(transfer)
        if let exchange { end(exchange, outcome) }
        if !waiting.isEmpty { startWaiting() }
    }

    private func end(_ exchange: Exchange, _ outcome: Result<HTTPAnswer, HTTPClientError>) {
        guard let continuation = exchange.continuation else { return }
        exchange.continuation = nil
        metrics?.count(outcome, milliseconds: clock() - exchange.startedAt)
        continuation.resume(returning: outcome)
    }

    private func cancel(_ exchange: Exchange) {
        guard exchange.continuation != nil else {
            // Cancelled before the request began: begin() must not start it.
            exchange.isCancelled = true
            return
        }
        if let transfer = exchange.transfer {
            let number = transfer.shard?.number ?? firstWithRoom
            transfer.shard?.remove(transfer)
            firstWithRoom = min(firstWithRoom, number)
            _ = transfer.answer.take()
            complete(transfer, .failure(HTTPClientError(.cancelled)))
        } else {
            end(exchange, .failure(HTTPClientError(.cancelled, wasNeverSent: true)))
        }
    }

    private func startWaiting() {
        while inFlight < configuration.requestsInFlightMax, let exchange = waiting.popFirst() { start(exchange) }
    }

    private func expireWaiting() {
        let now = clock()
        // Each may have a deadline of its own, so all are looked at.
        for _ in 0..<waiting.count {
            guard let exchange = waiting.popFirst(), exchange.continuation != nil else { continue }
            if now - exchange.startedAt >= exchange.request.deadline.inMilliseconds {
                end(exchange, .failure(HTTPClientError(.timeout, wasNeverSent: true)))
            } else {
                waiting.append(exchange)
            }
        }
    }

    // MARK: - Handles

    private func shardWithRoom() -> CurlShard? {
        while firstWithRoom < shards.count {
            if shards[firstWithRoom].inFlight < configuration.requestsPerShardMax { return shards[firstWithRoom] }
            firstWithRoom += 1
        }
        guard let shard = CurlShard(shards.count, client: self, connectionsMax: configuration.requestsPerShardMax)
        else { return nil }
        shards.append(shard)
        return shard
    }

    private func makeTransfer() -> Transfer? {
        guard let transfer = Transfer(configuration, sockets: sockets, share: share) else { return nil }
        transfer.slot = transfers.count
        transfers.append(transfer)
        return transfer
    }

    private func recycle(_ transfer: Transfer) {
        guard idle.count >= Self.idleTransfersMax else {
            idle.append(transfer)
            return
        }
        let last = transfers.removeLast()
        if last !== transfer {
            last.slot = transfer.slot
            transfers[last.slot] = last
        }
        transfer.close()
    }

    private func release() {
        tick?.cancel()
        tick = nil
        while let exchange = waiting.popFirst() {
            end(exchange, .failure(HTTPClientError(.stopped, wasNeverSent: true)))
        }
        for transfer in transfers {
            transfer.shard?.remove(transfer)
            let exchange = transfer.exchange
            transfer.exchange = nil
            exchange?.transfer = nil
            if let exchange { end(exchange, .failure(HTTPClientError(.stopped))) }
        }
        for shard in shards { shard.close() }
        for transfer in transfers { transfer.close() }
        shards = []
        kicked = []
        transfers = []
        idle = []
        inFlight = 0
        // Last: "the share object must not be in use", and handles use it until they are freed.
        if let share { curl_share_cleanup(share) }
        share = nil
    }

    // MARK: - Turns and clocks

    /// Milliseconds of a clock that only goes forward; a few milliseconds coarse, and nearly free to read.
    func clock() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Has the shard run at the end of this turn.
    func kick(_ shard: CurlShard) {
        guard !shard.isKicked else { return }
        shard.isKicked = true
        kicked.append(shard)
        if kicked.count == 1 { EventLoop.shared.atTurnEnd { [weak self] in self?.runKicked() } }
    }

    private func runKicked() {
        let shards = kicked
        kicked = []
        for shard in shards {
            shard.isKicked = false
            shard.run()
        }
    }

    private func startTick() {
        tick = EventLoop.shared.timer(after: Self.tickInterval, repeating: Self.tickInterval) { [weak self] in
            self?.ticked()
        }
    }

    private func ticked() {
        guard inFlight > 0 || !waiting.isEmpty else {
            tick?.cancel()
            tick = nil
            return
        }
        let now = clock()
        for shard in shards where shard.dueAt <= now { shard.runDue(now) }
        if !waiting.isEmpty { expireWaiting() }
    }
}

/// One call of ``HTTPClient/send(_:)`` until it returns.
@LoopActor
final class Exchange {
    let request: OutgoingRequest
    let startedAt: Int64
    var continuation: UnsafeContinuation<Result<HTTPAnswer, HTTPClientError>, Never>?
    var transfer: Transfer?
    var isCancelled = false

    init(_ request: OutgoingRequest, startedAt: Int64) {
        self.request = request
        self.startedAt = startedAt
    }
}

/// libcurl's process-wide set-up.
private enum CurlLibrary {
    /// "curl_global_init: this function must be called at least once within a program before the program calls any
    /// other function in libcurl"; a lazy global runs it exactly once.
    static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
}
