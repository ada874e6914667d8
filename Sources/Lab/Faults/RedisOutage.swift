import Redis
import ServiceRuntime

/// One time that Redis was away.
public struct RedisOutage: Sendable {
    /// What was done.
    public enum Kind: String, Sendable, CaseIterable {
        /// SIGKILL, and started again on its append-only file.
        case killed
        /// SIGTERM, and started again.
        case restarted
        /// SIGSTOP and SIGCONT.
        case frozen
        /// The network swallowed everything.
        case unreachable
    }

    /// What was done.
    public let kind: Kind
    /// How long it was away.
    public let away: Duration
    /// From its return to the first receipt that was settled; nil when none was within ten seconds.
    public let resumedAfter: Duration?
}

extension FaultHarness {
    /// Takes Redis away and brings it back, and measures how soon something is settled after its return.
    ///
    /// - Parameters:
    ///   - kind: How. ``RedisOutage/Kind/unreachable`` needs the proxy.
    ///   - away: For how long.
    ///   - returned: Called at the moment of the return; may make work.
    /// - Returns: How long it was away, and how soon work resumed.
    /// - Throws: When Redis does not come back, or what `returned` throws.
    package func takeRedisAway(
        _ kind: RedisOutage.Kind, for away: Duration, returned: @LoopActor () async throws -> Void = {}
    ) async throws -> RedisOutage {
        let begin = MonotonicInstant.now
        switch kind {
        case .killed: await redis.kill()
        case .restarted: await redis.shutDown()
        case .frozen: redis.freeze()
        case .unreachable: proxy?.isBlackHole = true
        }
        try await pause(for: away)
        switch kind {
        case .killed, .restarted: try await redis.start()
        case .frozen: redis.thaw()
        case .unreachable: proxy?.isBlackHole = false
        }
        let back = MonotonicInstant.now
        let heard = Completion<Duration?>()
        let subscriber = RedisSubscriber(
            RedisConfiguration(address: try RedisAddress(url: redisURL)), logger: .disabled, metrics: nil,
            channels: ["teller:{0}:settled"], onMessage: { _, _ in heard.complete(back.elapsed) }, onResubscribed: {})
        subscriber.start()
        try await returned()
        let timer = EventLoop.shared.timer(after: .seconds(10)) { heard.complete(nil) }
        let resumed = await heard.wait()
        timer.cancel()
        await subscriber.stop()
        return RedisOutage(kind: kind, away: back - begin, resumedAfter: resumed)
    }
}
