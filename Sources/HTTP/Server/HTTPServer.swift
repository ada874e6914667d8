import CMicrohttpd
import Glibc
public import ServiceRuntime

/// Answers HTTP/1.1 requests: libmicrohttpd's external epoll mode on the loop.
///
/// libmicrohttpd parses and sends; it is run whenever its epoll descriptor is readable, and again while it says that it
/// has something to do (it is edge-triggered: otherwise it would stall). A request reaches its handler when its body is
/// complete. A handler that finishes without really waiting is answered within the same call; for the others the
/// connection is suspended and resumed. Limits on bodies, headers, silence and slowness all end in a 4xx answer or a
/// closed connection. TLS ends at a proxy in front.
///
/// Two of these ends are libmicrohttpd's own (0.9.75) and cannot be bettered from outside. Headers that it refuses
/// when it has parsed them (no `Host`, a `Content-Length` that is no number) get its bare 400 or 413 with the head
/// sent twice, for it goes on to its next state after the error; the connection is then closed, and no handler has
/// seen the request. And a chunked body that passes its limit by more than the excess we read away ends in a reset
/// instead of a 413: an answer can be queued before a body or after it, not within.
@LoopActor
public final class HTTPServer {
    /// Where a server listens and what it puts up with.
    public struct Configuration: Sendable {
        /// Numeric address, or "localhost"; loopback unless told otherwise.
        public var host = "127.0.0.1"
        /// TCP port; 0 lets the system choose.
        public var port = 0
        /// A longer body gets 413, unless its route allows more.
        public var bodyBytesMax = 128 << 10
        /// A longer request line with headers gets 414 or 431.
        public var headerBytesMax = 8 << 10
        /// A connection that is silent for longer is closed.
        public var idleTimeout: Duration = .seconds(60)
        /// A connection that takes longer to send one request is closed, however busy it is.
        public var receiveTimeout: Duration = .seconds(30)
        /// A connection that takes longer to read one answer is closed.
        public var answerTimeout: Duration = .seconds(60)
        /// Connections at once; more wait to be accepted.
        public var connectionsMax = 10_000
        /// Lets several processes share the port (`SO_REUSEPORT`).
        public var reusePort = false

        /// The defaults.
        public init() {}
    }

    /// What became of the requests that were open when a server was stopped.
    public struct DrainReport: Sendable, Hashable {
        /// Answered by their handlers in time.
        public var answered = 0
        /// Answered with 503, or cut off, at the deadline.
        public var abandoned = 0

        /// Makes a report.
        public init(answered: Int = 0, abandoned: Int = 0) {
            self.answered = answered
            self.abandoned = abandoned
        }
    }

    /// The excess of a body that is read and dropped so that a client which sends first and reads afterwards sees the
    /// 413; a body with more excess is cut off.
    static let excessBytesMax = 1 << 20
    static let sweepInterval = Duration.milliseconds(500)
    /// Passes of libmicrohttpd in one go before the rest of the loop has its turn.
    static let passesMax = 16

    let configuration: Configuration
    let router: Router
    let logger: Logger
    let metrics: HTTPServerMetrics?

    var connections: [ServerConnection] = []
    /// Requests whose handler has been started and that are not over.
    var openRequests = 0
    var isDraining = false
    /// The patience of ``stop(within:)`` is over.
    var isCuttingOff = false
    var drain: (report: DrainReport, completion: Completion<Void>)?

    private var daemon: OpaquePointer?
    private var watch: IOWatch?
    private var sweep: LoopTimer?
    private var pump: Task<Void, Never>?
    private var sleeper: UnsafeContinuation<Void, Never>?
    private var isAwake = false
    private var isRunning = false
    private var willWake = false

    /// Makes a server; it listens from ``start()`` on.
    public init(_ configuration: Configuration, router: Router, logger: Logger, metrics: Metrics? = nil) {
        self.configuration = configuration
        self.router = router
        self.logger = logger
        self.metrics = metrics.map { HTTPServerMetrics($0) }
    }

    /// Begins to listen.
    ///
    /// - Returns: The port, which the system chose if it was configured as 0.
    /// - Throws: ``ListenError``, or `LoopError` without descriptors.
    @discardableResult
    public func start() throws -> Int {
        precondition(daemon == nil, "the server was started twice")
        let listening = try ListeningSocket.open(
            host: configuration.host, port: configuration.port, reusePort: configuration.reusePort)
        // libmicrohttpd clears a connection's whole memory after each request, so it should be no larger than needed:
        // what was read, and what the parsed headers and the answer's take.
        var setup = teller_MHD_setup(
            listen_fd: listening.descriptor, connections_max: UInt32(configuration.connectionsMax),
            idle_seconds_max: UInt32(max(1, configuration.idleTimeout.inMilliseconds / 1000)),
            connection_bytes: configuration.headerBytesMax + 4096, handler: Self.requestCame,
            completed: Self.requestEnded,
            connection: Self.connectionChanged, owner: Unmanaged.passUnretained(self).toOpaque())
        guard let daemon = teller_MHD_start(&setup) else {
            close(listening.descriptor)
            throw ListenError(host: configuration.host, port: configuration.port, reason: "MHD_start_daemon failed")
        }
        self.daemon = daemon
        watch = try EventLoop.shared.watch(fd: teller_MHD_epoll_fd(daemon), .readable) { [unowned self] _ in self.wake()
        }
        sweep = EventLoop.shared.timer(after: Self.sweepInterval, repeating: Self.sweepInterval) { [unowned self] in
            self.sweepConnections()
            self.wake()
        }
        // Owns the server until it is stopped, as libmicrohttpd's callbacks need.
        pump = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            while self.daemon != nil {
                self.run()
                await self.sleep()
            }
        }
        return listening.port
    }

    /// Stops accepting, answers what is held, and ends the rest when `patience` is over.
    public func stop(within patience: Duration) async -> DrainReport {
        guard let daemon, !isDraining else { return DrainReport() }
        // What the kernel has accepted for us already gets its answer.
        run()
        isDraining = true
        let descriptor = MHD_quiesce_daemon(daemon)
        if descriptor >= 0 { close(descriptor) }
        let completion = Completion<Void>()
        drain = (DrainReport(), completion)
        for connection in connections where connection.request == nil { connection.endReading() }
        let timer = EventLoop.shared.timer(after: patience) { completion.complete(()) }
        run()
        completeDrainIfDone()
        await completion.wait()
        timer.cancel()
        return shutDown()
    }

    /// Client connections that are open now.
    public var connectionCount: Int { connections.count }

    func completeDrainIfDone() {
        if connections.isEmpty { drain?.completion.complete(()) }
    }

    private func shutDown() -> DrainReport {
        isCuttingOff = true
        for connection in connections {
            guard let request = connection.request, request.phase == .handling else { continue }
            // "MHD_stop_daemon: all suspended connections must be resumed before" it is called.
            drain?.report.abandoned += 1
            request.task?.cancel()
            // One that was told to hang has its "answer" already, and is suspended all the same.
            if request.response?.fault == .hang {
                refuse(request)
            } else {
                answer(request, router.response(to: .stopping))
            }
        }
        // One pass to resume, one to answer, one to see what is left; the rest is cut off.
        for _ in 0..<4 { if let daemon { MHD_run(daemon) } }
        watch?.stop()
        sweep?.cancel()
        if let daemon { MHD_stop_daemon(daemon) }
        daemon = nil
        wake()
        return drain?.report ?? DrainReport()
    }

    // MARK: - Running libmicrohttpd

    /// Lets libmicrohttpd work until it has nothing more to do.
    private func run() {
        guard let daemon, !isRunning else { return }
        isRunning = true
        defer { isRunning = false }
        var timeout: UInt64 = 0
        for _ in 0..<Self.passesMax {
            MHD_run(daemon)
            // Time-outs are left to the sweep, which comes twice a second.
            guard MHD_get_timeout(daemon, &timeout) == .YES, timeout == 0 else { return }
        }
        EventLoop.shared.timer(after: .zero) { [weak self] in self?.wake() }
    }

    /// Has the pump run libmicrohttpd.
    ///
    /// It runs in a task, not in the callback of the watch, because `Task.immediate` begins a handler at once only when
    /// it is called by a job of this executor; from a bare callback every request would be suspended and resumed.
    private func wake() {
        isAwake = true
        sleeper?.resume()
        sleeper = nil
    }

    private func sleep() async {
        if !isAwake { await withUnsafeContinuation { sleeper = $0 } }
        isAwake = false
    }

    /// Runs libmicrohttpd once more in this turn, for all connections that were resumed in it.
    func wakeAtTurnEnd() {
        guard !willWake else { return }
        willWake = true
        EventLoop.shared.atTurnEnd { [weak self] in
            guard let self else { return }
            willWake = false
            wake()
        }
    }

    // MARK: - Connections

    func connectionOpened(_ descriptor: Int32) -> ServerConnection {
        let connection = ServerConnection(descriptor, since: .now)
        connection.slot = connections.count
        connections.append(connection)
        return connection
    }

    func connectionClosed(_ connection: ServerConnection) {
        let last = connections.removeLast()
        if last !== connection {
            last.slot = connection.slot
            connections[last.slot] = last
        }
        if isDraining { completeDrainIfDone() }
    }

    private func sweepConnections() {
        let now = MonotonicInstant.now
        for connection in connections {
            let patience: Duration
            switch connection.request?.phase {
            case .handling:
                lookForClient(connection)
                continue
            case .answering: patience = configuration.answerTimeout
            // libmicrohttpd takes a read that came back short for all there is and waits for the next edge. An end of the
            // stream that came together with the last bytes makes none: it would be seen when the connection times out.
            case nil where connection.isClosedByClient, .receiving where connection.isClosedByClient:
                connection.cut()
                continue
            case nil where connection.requests > 0: patience = configuration.idleTimeout + configuration.receiveTimeout
            default: patience = configuration.receiveTimeout
            }
            if now - connection.since > patience { connection.cut() }
        }
    }

    /// Has a handler know that nobody waits for its answer any more.
    private func lookForClient(_ connection: ServerConnection) {
        guard let request = connection.request, !request.clientIsGone, connection.isClosedByClient else { return }
        request.clientIsGone = true
        if request.response?.fault == .hang {
            refuse(request)
        } else {
            request.task?.cancel()
        }
    }
}
