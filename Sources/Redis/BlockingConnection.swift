public import ServiceRuntime

/// A connection of its own for the one command that waits: BLMOVE.
///
/// A worker that is alive and no longer consuming after a hiccup of the network is the classic failure of queues on
/// Redis, because the waiting socket is half open and nobody notices. Here the client waits one second longer than it
/// asked the server to wait; then the descriptor is closed and a fresh socket made, whatever the reason was. What the
/// abandoned waiter may still receive lands in the destination list, in plain sight of everybody.
@LoopActor
public final class BlockingConnection {
    /// How much longer than the server's block time a reply may take: one round trip and the server's timer (10 Hz).
    public nonisolated static let replyMargin = Duration.seconds(1)

    private let configuration: RedisConfiguration
    private let logger: Logger
    private let freshSockets: Counter?
    private var link: RedisLink?
    private var backoff = Backoff()
    private var mustPause = false
    private var isPopping = false
    private var isStopped = false

    /// Makes a connection that connects at its first use.
    public init(_ configuration: RedisConfiguration, logger: Logger, metrics: Metrics?) {
        self.configuration = configuration
        self.logger = logger.with(["address": .string(configuration.address.redacted), "use": "blocking"])
        freshSockets = metrics?.counter(
            "teller_redis_connects_total", "Connections made to Redis, the first one included.",
            labels: ["use": "blocking"])
    }

    /// Moves one element from the right end of `source` to the left end of `destination` (`BLMOVE … RIGHT LEFT`), waiting for
    /// one to come.
    ///
    /// One call at a time; the server waits for `seconds`, which must be more than 0. Cancelling the task closes the socket.
    ///
    /// - Returns: The element, or nil when none came in time.
    /// - Throws: What went wrong; the next call makes a fresh connection, after a short pause.
    public func pop(
        from source: RedisArgument, to destination: RedisArgument, seconds: Double
    ) async throws(RedisError) -> [UInt8]? {
        precondition(seconds > 0, "an endless wait has no deadline")
        precondition(!isPopping, "a blocking connection waits for one thing at a time")
        isPopping = true
        defer { isPopping = false }
        do throws(RedisError) {
            let link = try await openLink()
            let reply = try await wait(
                on: link, ["BLMOVE", source, destination, "RIGHT", "LEFT", "\(seconds)"], seconds)
            backoff.reset()
            return reply.bytes
        } catch {
            // An error reply leaves a good connection, unless the server behind it is of no use.
            if link?.isOpen != true { link = nil }
            mustPause = true
            throw error
        }
    }

    /// Closes the connection; a waiting ``pop(from:to:seconds:)`` throws.
    public func stop() {
        isStopped = true
        link?.close(RedisError(.notConnected, "stopped"))
    }

    private func wait(
        on link: RedisLink, _ command: [RedisArgument], _ seconds: Double
    ) async throws(RedisError) -> RedisValue {
        let deadline = MonotonicInstant.now + .seconds(seconds) + Self.replyMargin
        let reply = await withTaskCancellationHandler {
            await withUnsafeContinuation { link.send(command, deadline: deadline, .task($0)) }
        } onCancel: {
            EventLoop.shared.perform { link.close(RedisError(.notConnected, "cancelled")) }
        }
        return try reply.get()
    }

    private func openLink() async throws(RedisError) -> RedisLink {
        if mustPause {
            mustPause = false
            do {
                try await pause(for: backoff.next())
            } catch {
                throw RedisError(.notConnected, "cancelled")
            }
        }
        guard !isStopped else { throw RedisError(.notConnected, "stopped") }
        if let link, link.isOpen { return link }
        let fresh = try await RedisLink.open(configuration)
        if let validate = configuration.validate {
            do {
                try await validate(RedisHandshake(link: fresh))
            } catch {
                fresh.close(RedisError(.notConnected, "refused"))
                throw error as? RedisError ?? RedisError(.refused, "\(error)")
            }
        }
        guard !isStopped, fresh.isOpen else {
            fresh.close(RedisError(.notConnected, "stopped"))
            throw RedisError(.notConnected, "lost while it was checked")
        }
        link = fresh
        freshSockets?.increment()
        logger.debug("redis connected")
        return fresh
    }
}
