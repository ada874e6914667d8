import ServiceRuntime

/// Keeps one link alive: connect, prepare, use until it is lost, pause, again.
@LoopActor
final class Reconnector {
    /// A link that lived this long counts as good: the next loss starts with the shortest pause again.
    ///
    /// Without it a
    /// server that accepts and refuses in turn (a replica behind an old name) would be called in a tight loop.
    private static let stableAfter = Duration.seconds(1)
    /// A link from which nothing has come for this long, although replies are due, is doubted.
    private static let doubtAfter = Duration.milliseconds(800)
    private static let looksBeforeDoubt = 4

    private let configuration: RedisConfiguration
    private let logger: Logger
    private let connects: Counter?
    private let connectedGauge: Gauge?
    private var backoff = Backoff()
    private var task: Task<Void, Never>?
    private var link: RedisLink?
    private let finished = Completion<Void>()
    private var isStopping = false
    private var lostAt: MonotonicInstant?
    private var isOutageLogged = false
    private var isProbing = false

    /// Readies a fresh link for its user; throws to refuse it.
    var prepare: (@LoopActor @Sendable (RedisLink) async throws(RedisError) -> Void)?
    /// The link, which had been prepared, was lost.
    var lost: (@LoopActor (RedisError) -> Void)?
    /// An attempt failed.
    var failed: (@LoopActor (RedisError) -> Void)?

    init(_ configuration: RedisConfiguration, use: String, logger: Logger, metrics: Metrics?) {
        self.configuration = configuration
        self.logger = logger.with(["address": .string(configuration.address.redacted), "use": .string(use)])
        connects = metrics?.counter(
            "teller_redis_connects_total", "Connections made to Redis, the first one included.", labels: ["use": use])
        connectedGauge = metrics?.gauge(
            "teller_redis_connected", "1 while the connection to Redis can be used.", labels: ["use": use])
    }

    func start() {
        guard task == nil, !isStopping else { return }
        task = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in await self.run() }
    }

    /// Lets commands that wait for a reply have it (within their deadline), then closes; returns when all is closed.
    func stop() async {
        guard !isStopping else { return }
        isStopping = true
        guard let task else { return }
        link?.retire()
        task.cancel()
        await finished.wait()
    }

    private func run() async {
        while !isStopping {
            await runOnce()
            guard !isStopping else { break }
            // Cancelled means stopping: the loop's condition sees it.
            try? await pause(for: backoff.next())
        }
        finished.complete(())
    }

    private func runOnce() async {
        let reason: RedisError
        do throws(RedisError) {
            let link = try await RedisLink.open(configuration)
            self.link = link
            defer { self.link = nil }
            do throws(RedisError) {
                if isStopping { throw RedisError(.notConnected, "stopping") }
                try await prepare?(link)
            } catch {
                link.close(error)
                throw error
            }
            logConnected()
            let since = MonotonicInstant.now
            let watch = watchOver(link)
            reason = await link.closed.wait()
            watch.cancel()
            if since.elapsed >= Self.stableAfter { backoff.reset() }
        } catch {
            failed?(error)
            logOutage("redis connection failed", error)
            return
        }
        connectedGauge?.set(0)
        lost?(reason)
        if !isStopping { logOutage("redis connection lost", reason) }
    }

    // MARK: - Half-open connections

    /// Looks now and then whether a link is silent although replies are due.
    private func watchOver(_ link: RedisLink) -> LoopTimer {
        var reads = link.readCount
        var silentLooks = 0
        let interval = Self.doubtAfter / Self.looksBeforeDoubt
        return EventLoop.shared.timer(after: interval, repeating: interval) { [weak self, weak link] in
            guard let self, let link else { return }
            guard link.isReplyDue, link.readCount == reads else {
                reads = link.readCount
                silentLooks = 0
                return
            }
            silentLooks += 1
            if silentLooks >= Self.looksBeforeDoubt { probe(link) }
        }
    }

    /// Closes a silent link when the server answers on another connection.
    ///
    /// A dead route looks like a busy server. Waiting for the commands' deadline would be right for the second and would
    /// lose seconds after the first is over; a shorter deadline would cut off a server that only waits for its disk. A
    /// second connection tells them apart: a server that has time for it has served the first one before, if it is
    /// there at all (both are read in the same turn of the loop, before this task goes on).
    private func probe(_ link: RedisLink) {
        guard !isProbing, !isStopping else { return }
        isProbing = true
        let reads = link.readCount
        Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            defer { self.isProbing = false }
            guard let other = try? await RedisLink.open(self.configuration) else { return }
            other.close(RedisError(.notConnected, "only a probe"))
            guard link.readCount == reads, link.isReplyDue else { return }
            link.close(RedisError(.connectionLost, "silent while the server answers on another connection"))
        }
    }

    private func logConnected() {
        connects?.increment()
        connectedGauge?.set(1)
        let outage = lostAt.map { $0.elapsed } ?? .zero
        lostAt = nil
        isOutageLogged = false
        logger.info("redis connected", ["outageMs": .milliseconds(outage)])
    }

    /// One warning per outage, not one per attempt.
    private func logOutage(_ event: StaticString, _ error: RedisError) {
        if lostAt == nil { lostAt = .now }
        let fields: [String: LogValue] = ["reason": .string(error.description)]
        if isOutageLogged { logger.debug(event, fields) } else { logger.warning(event, fields) }
        isOutageLogged = true
    }
}
