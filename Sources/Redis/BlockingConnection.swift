public import ServiceRuntime

/// A connection of its own for the one command that waits, BLMOVE, and the script that takes what the wait brought.
///
/// The script is sent with the command. The server runs it in the very turn that ends the wait, so that a push, the end
/// of the wait and the script share one sync of the append-only file, and whoever pushed waits for no round trip of ours.
///
/// A worker that is alive and no longer consuming after a hiccup of the network is the classic failure of queues on
/// Redis, because the waiting socket is half open and nobody notices. Here the client waits one second longer than it
/// asked the server to wait; then the descriptor is closed and a fresh socket made, whatever the reason was. What the
/// abandoned script may still take is for its owner to find again.
@LoopActor
public final class BlockingConnection {
    /// How much longer than the server's block time a reply may take: one round trip and the server's timer (10 Hz).
    public nonisolated static let replyMargin = Duration.seconds(1)

    private let configuration: RedisConfiguration
    private let logger: Logger
    private let freshSockets: Counter?
    private let digests = ScriptDigests()
    private var link: RedisLink?
    private var backoff = Backoff()
    private var mustPause = false
    private var isWaiting = false
    private var isRefused = false
    private var isStopped = false

    /// Makes a connection that connects at its first use.
    public init(_ configuration: RedisConfiguration, logger: Logger, metrics: Metrics?) {
        self.configuration = configuration
        self.logger = logger.with(["address": .string(configuration.address.redacted), "use": "blocking"])
        freshSockets = metrics?.counter(
            "teller_redis_connects_total", "Connections made to Redis, the first one included.",
            labels: ["use": "blocking"])
    }

    /// Waits for an element at the right end of `source`, moves it to the left end of `destination`
    /// (`BLMOVE … RIGHT LEFT`), and runs a script; when none comes for `seconds`, which must be more than 0, the script
    /// runs all the same.
    ///
    /// One call at a time. Cancelling the task closes the socket.
    ///
    /// - Returns: The script's reply. It also ran when the server refused to move anything, as one whose memory is full
    ///   does; the first refusal in a row is logged, and the next call pauses first.
    /// - Throws: What went wrong with the connection or the script, which then may have run
    ///   (``RedisError/mayHaveBeenApplied``); the next call pauses shortly, and connects anew if it must.
    public func evaluate(
        _ script: RedisScript, keys: [RedisArgument], arguments: [RedisArgument],
        onceMovedFrom source: RedisArgument, to destination: RedisArgument, within seconds: Double
    ) async throws(RedisError) -> RedisValue {
        precondition(seconds > 0, "an endless wait has no deadline")
        precondition(!isWaiting, "a blocking connection waits for one thing at a time")
        isWaiting = true
        defer { isWaiting = false }
        do throws(RedisError) {
            let link = try await openLink()
            let verb = digests.verb(for: script, on: link)
            let deadline = MonotonicInstant.now + .seconds(seconds) + Self.replyMargin
            let replies = await replies(on: link) { recipient in
                link.send(
                    ["BLMOVE", source, destination, "RIGHT", "LEFT", "\(seconds)"], deadline: deadline, recipient(0))
                link.send(verb, keys: keys, arguments: arguments, deadline: deadline, recipient(1))
            }
            var reply = replies[1]
            if case .failure(let error) = reply, error.kind == .noScript {
                reply = await withUnsafeContinuation {
                    link.send(.eval(script.source.text), keys: keys, arguments: arguments, .task($0))
                }
            }
            let value = try reply.get()
            note(replies[0])
            return value
        } catch {
            // An error reply leaves a good connection, unless the server behind it is of no use.
            if link?.isOpen != true { link = nil }
            mustPause = true
            throw error
        }
    }

    /// Closes the connection; a call that waits throws.
    public func stop() {
        isStopped = true
        link?.close(RedisError(.notConnected, "stopped"))
    }

    /// Takes note of what became of BLMOVE in a call that was of use all the same.
    private func note(_ move: RedisLink.Reply) {
        switch move {
        case .success:
            backoff.reset()
            isRefused = false
        case .failure(let error):
            if !isRefused { logger.warning("redis refuses to wait for a push", ["error": .string("\(error)")]) }
            isRefused = true
            mustPause = true
        }
    }

    /// The replies to two commands.
    private func replies(
        on link: RedisLink, _ send: ((Int) -> RedisLink.Recipient) -> Void
    ) async -> [RedisLink.Reply] {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let replies = PipelineReplies(count: 2, continuation)
                send { .pipeline(replies, index: $0) }
            }
        } onCancel: {
            EventLoop.shared.perform { link.close(RedisError(.notConnected, "cancelled")) }
        }
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
