public import ServiceRuntime

/// Hears the messages of some channels, over outages.
///
/// Publish/subscribe forgets: what is published while the connection is down is gone. So the owner is told after each
/// (re)subscription, the first included, and then looks at the state itself (design: the status key is the truth, the
/// message only a wake-up). A connection that says nothing is asked with PING, so that a half-open one is replaced within
/// seconds.
@LoopActor
public final class RedisSubscriber {
    /// A connection silent for this many seconds is asked with PING.
    private static let askAfterSeconds = 1
    /// One that has been silent for longer than this is closed.
    private static let giveUpAfterSeconds = 3

    private let configuration: RedisConfiguration
    private let channels: [String]
    private let onMessage: @LoopActor (String, [UInt8]) -> Void
    private let onResubscribed: @LoopActor () -> Void
    private let reconnector: Reconnector
    private var heartbeat: LoopTimer?
    private var silentSeconds = 0

    /// Binds channels to handlers; nothing happens before ``start()``.
    public init(
        _ configuration: RedisConfiguration, logger: Logger, metrics: Metrics?, channels: [String],
        onMessage: @escaping @LoopActor (_ channel: String, _ payload: [UInt8]) -> Void,
        onResubscribed: @escaping @LoopActor () -> Void
    ) {
        precondition(!channels.isEmpty, "a subscriber needs a channel")
        self.configuration = configuration
        self.channels = channels
        self.onMessage = onMessage
        self.onResubscribed = onResubscribed
        reconnector = Reconnector(configuration, use: "subscriber", logger: logger, metrics: metrics)
        reconnector.prepare = { @LoopActor [weak self] (link) async throws(RedisError) in
            try await self?.subscribe(link)
        }
        reconnector.lost = { [weak self] _ in self?.stopHeartbeat() }
    }

    /// Begins to connect and subscribe, and again whenever the connection is lost.
    public func start() { reconnector.start() }

    /// Closes the connection; no handler is called afterwards.
    public func stop() async {
        stopHeartbeat()
        await reconnector.stop()
    }

    private func subscribe(_ link: RedisLink) async throws(RedisError) {
        let confirmed = Completion<Result<Void, RedisError>>()
        var missing = channels.count
        link.onMessage = { [weak self] value in
            self?.silentSeconds = 0
            if case .error(let error) = value { confirmed.complete(.failure(error)) }
            guard let elements = value.elements, elements.count == 3, let kind = elements[0].bytes else { return }
            if kind == Self.message {
                guard let channel = elements[1].text, let payload = elements[2].bytes else { return }
                self?.onMessage(channel, payload)
            } else if kind == Self.subscribed {
                missing -= 1
                if missing == 0 { confirmed.complete(.success(())) }
            }
        }
        let limit = configuration.connectTimeout
        let timer = EventLoop.shared.timer(after: limit) {
            confirmed.complete(.failure(RedisError(.deadlineExceeded, "SUBSCRIBE was not confirmed within \(limit)")))
        }
        link.sendExpectingMessages(["SUBSCRIBE"] + channels.map { .string($0) })
        let result = await confirmed.wait()
        timer.cancel()
        try result.get()
        startHeartbeat(link)
        onResubscribed()
    }

    private static let message = Array("message".utf8)
    private static let subscribed = Array("subscribe".utf8)

    private func startHeartbeat(_ link: RedisLink) {
        stopHeartbeat()
        heartbeat = EventLoop.shared.timer(after: .seconds(1), repeating: .seconds(1)) { [weak self, weak link] in
            guard let self, let link else { return }
            silentSeconds += 1
            if silentSeconds > Self.giveUpAfterSeconds {
                link.close(RedisError(.connectionLost, "no answer to PING"))
            } else if silentSeconds == Self.askAfterSeconds {
                link.sendExpectingMessages(["PING"])
            }
        }
    }

    private func stopHeartbeat() {
        heartbeat?.cancel()
        heartbeat = nil
        silentSeconds = 0
    }
}
