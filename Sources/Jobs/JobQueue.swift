public import Redis
public import ServiceRuntime

/// The durable queue in one partition of Redis; it knows no receipts.
///
/// A job is an entry that is always in exactly one place: a `pending` list, `arrived`, the `running` hash of one worker, a
/// `retry` set, `suspects`, or the dead letters; every move between two of them is one Lua script that names both, so
/// there is no moment in which a crash could lose it. A worker that dies leaves its jobs in its `running` hash, where any
/// other worker finds them as soon as the heartbeat is older than a lease (``sweep()``). A reply that is lost leaves a
/// lease that its own worker does not know of; ``adopt()`` finds those. What may happen twice is that a job is *worked on*
/// twice (nothing can tell a slow worker from a dead one), and so effects must be idempotent and every transition says
/// whether the lease was still this worker's.
///
/// Every script first compares the incarnation in the meta hash with the one this process was started for: on a Redis
/// that was wiped or is another one all of them fail with ``RedisError/isWrongIncarnation`` instead of starting afresh.
@LoopActor
public final class JobQueue {
    let redis: RedisConnection
    let keys: JobKeys
    let incarnation: String
    let configuration: Configuration
    let logger: Logger
    let counters: JobCounters
    let batches: Batches

    /// This worker's name; nil for a process that only enqueues and inspects.
    public let worker: WorkerID?

    /// Leases by number: `false` while worked on, `true` while a transition is on its way.
    var held: [Int64: Bool] = [:]
    /// Numbers that lease calls without a reply may have used, and whether the call waits for a push first: what is found
    /// under them is not lost, it is coming.
    var reserved: [(numbers: Range<Int64>, waits: Bool)] = []
    var nextNumber: Int64 = 1
    /// The queue for whose suspects this worker lets go of everything else.
    var drainingFor: String?
    /// Whether the last lease call was told that a suspect is held, or comes next: more must not be leased now.
    var isIsolated = false
    var mustAdopt = true
    /// Whether this worker has said good-bye (``leave()``).
    var hasLeft = false
    var isAdopting = false
    /// When this worker's last heartbeat ran, by Redis' clock; nil until one was answered on this connection.
    var lastBeatMs: Int64?

    private var blocking: [String: BlockingConnection] = [:]
    private let makeBlocking: (@LoopActor () -> BlockingConnection)?
    private var serverClock: (ms: Int64, at: MonotonicInstant)?

    /// Whether the last ``depth(of:)`` met a Redis that is not the one this process was started for.
    public internal(set) var isForeignRedis = false

    /// When a lease call was last answered: the proof that work can be had, unlike PING on another connection.
    public internal(set) var lastLeaseRoundTrip: MonotonicInstant?

    /// Binds a queue to a connection; nothing is sent.
    ///
    /// `incarnation` is ``Meta/incarnation`` as read when the process started; `worker` this worker's name, nil when the
    /// process does not lease; `blocking` how ``leaseNext(queue:max:)`` connects, nil when it is not used.
    public init(
        redis: RedisConnection, partition: Int = 0, incarnation: String, worker: WorkerID?,
        blocking: RedisConfiguration? = nil, configuration: Configuration = Configuration(), logger: Logger,
        metrics: Metrics?
    ) {
        precondition(
            configuration.heartbeatInterval * 2 <= configuration.pulsePauseMax,
            "one late heartbeat must not look like an outage of Redis")
        self.redis = redis
        keys = JobKeys(partition: partition)
        self.incarnation = incarnation
        self.worker = worker
        self.configuration = configuration
        self.logger = logger
        counters = JobCounters(metrics)
        makeBlocking = blocking.map { configuration in
            { @LoopActor in BlockingConnection(configuration, logger: logger, metrics: metrics) }
        }
        batches = Batches(redis, keys, incarnation, worker, configuration)
        redis.onReconnect { [weak self] in self?.connectionWasRenewed() }
        guard worker != nil else { return }
        metrics?.gauge("teller_jobs_running", "Leases that this worker holds.") { [weak self] in
            Double(self?.held.count ?? 0)
        }
        metrics?.gauge("teller_jobs_last_lease_age_seconds", "Time since a lease call was last answered.") {
            [weak self] in
            self?.lastLeaseRoundTrip?.elapsedSeconds ?? -1
        }
    }

    /// The channel on which ids of settled and buried submissions are published, joined by line feeds.
    public var settledChannel: String { keys.settledChannel }

    /// How many leases this worker holds.
    public var heldCount: Int { held.count }

    /// How long a status is kept after it was written last.
    public var statusLifetime: Duration { configuration.statusLifetime }
    /// A submission that was decided, but not credited, is looked at again at most this often.
    public var lookAgainInterval: Duration { configuration.lookAgainInterval }

    /// The status of a submission as it was last written; nil when there is none any more.
    public func status(of submission: String) async throws(RedisError) -> [UInt8]? {
        guard JobName.isValid(submission) else { return nil }
        return try await redis.send(["GET", .string(keys.status(submission))], idempotent: true).bytes
    }

    /// The connection on which a queue's next push is waited for.
    func blockingConnection(for queue: String) throws(RedisError) -> BlockingConnection {
        if let known = blocking[queue] { return known }
        guard let makeBlocking else { throw RedisError(.refused, "this queue has no blocking connection") }
        let connection = makeBlocking()
        blocking[queue] = connection
        return connection
    }

    /// Closes the blocking connections: whoever waits for work gets an error at once.
    ///
    /// What a wait that ends at this very moment has leased is left to the reaping; better is to let them end.
    public func stopWaiting() {
        for connection in blocking.values { connection.stop() }
        blocking = [:]
    }

    // MARK: - The server's clock

    /// Notes what time a reply told.
    func serverTold(_ ms: Int64) { serverClock = (ms, .now) }

    /// Redis' time in milliseconds, from the last reply that told it and the time since.
    func serverNow() async throws(RedisError) -> Int64 {
        if let (ms, at) = serverClock, at.elapsed < .seconds(60) { return ms + at.elapsed.inMilliseconds }
        let parts = try await redis.send(["TIME"], idempotent: true).elements ?? []
        guard parts.count == 2, let seconds = parts[0].int, let microseconds = parts[1].int else {
            throw RedisError(.protocolError, "TIME did not answer with two numbers")
        }
        let ms = seconds * 1000 + microseconds / 1000
        serverTold(ms)
        return ms
    }

    /// Replies may have been lost, and the clock may be another server's.
    private func connectionWasRenewed() {
        mustAdopt = true
        serverClock = nil
        lastBeatMs = nil
    }

    var meta: RedisArgument { .string(keys.meta) }
    var incarnationArgument: RedisArgument { .string(incarnation) }
}

extension JobQueue {
    /// Times and limits of a queue; all workers of a partition should share them.
    public struct Configuration: Sendable {
        /// How long a status lives: 24 h.
        public var statusLifetime = Duration.seconds(86_400)
        /// A pending submission written within this time counts as alive and is not pushed again: 60 s.
        public var aliveWindow = Duration.seconds(60)
        /// A submission with another final status than "credited" is looked at again at most this often: 10 s.
        public var lookAgainInterval = Duration.seconds(10)
        /// A worker whose heartbeat is older is taken for dead: 3 s.
        public var leasePeriod = Duration.seconds(3)
        /// Between two heartbeats: 0.5 s.
        public var heartbeatInterval = Duration.milliseconds(500)
        /// Between two sweeps, and the longest idle wait: 0.5 s.
        public var sweepInterval = Duration.milliseconds(500)
        /// The longest time without anybody's heartbeat that is not taken for an outage of Redis: half a lease.
        ///
        /// A worker that lives through a shorter one is silent for this long, an interval, and what it takes to connect
        /// again, together less than a lease. Should connecting take a second or more it may be taken for dead: then its
        /// transitions change nothing, and its receipts are worked on once more.
        var pulsePauseMax: Duration { leasePeriod / 2 }
        /// Jobs in one lease call at most: 256.
        public var leaseMax = 256
        /// Jobs in one reap call at most: 100.
        public var reapMax = 100
        /// A job that was in this many crashed workers is leased alone: 3.
        public var suspectCrashes = 3
        /// A job that ended this many workers while it was leased alone is buried: 3.
        public var fatalCrashes = 3
        /// Entries in a pending list from which on enqueueing is refused: 1,000,000.
        public var pendingMax = 1_000_000
        /// How long a transition is tried again while Redis is away, before the lease is given up: 30 s.
        public var transitionPatience = Duration.seconds(30)
        /// Calls in one batched script at most: 64.
        public var batchMax = 64
        /// Bytes kept of a malformed job among the dead letters: 4 KiB.
        public var malformedBytesMax = 4096

        /// The defaults.
        public init() {}
    }
}

extension RedisError {
    /// The Redis is not the one this process was started for: wiped, restored without its meta hash, or another one.
    public var isWrongIncarnation: Bool { kind == .other(code: "TELLERMETA") }

    /// The worker's name is not registered: it never was, or it was reaped and holds nothing any more.
    public var isUnregisteredWorker: Bool { kind == .other(code: "TELLERWORKER") }
}
