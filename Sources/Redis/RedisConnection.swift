public import ServiceRuntime

/// The connection for ordinary commands: all tasks of a process share one, and their commands pipeline themselves.
///
/// What is sent in one turn of the loop leaves in one write(2); replies resume their tasks on the same thread. When the
/// connection is lost it is made again by itself, and every waiting command learns the truth about itself:
/// ``RedisError/Kind-swift.enum/notConnected`` when not a byte of it was written, ``RedisError/Kind-swift.enum/connectionLost``
/// when it may have been applied. Nothing is ever sent twice unless the caller marked it idempotent: a client that repeats
/// an INCR after a time-out pays twice. While there is no connection, commands fail at once rather than queue up.
///
/// Cancelling a task does not take back a command that was sent: its reply is awaited, at the longest until its deadline.
@LoopActor
public final class RedisConnection: RedisCommanding {
    /// How to connect.
    public typealias Configuration = RedisConfiguration
    /// What ``RedisConfiguration/validate`` is given.
    public typealias Handshake = RedisHandshake

    /// Idempotent commands that wait for a new connection, at most; more fail at once.
    static let waitersMax = 20_000

    let configuration: RedisConfiguration
    private let reconnector: Reconnector
    private let commands: Counter?
    private let script = ScriptDigests()
    private var link: RedisLink?
    private var waiters: [Int: Waiter] = [:]
    private var waiterCount = 0
    private var hasBeenReady = false
    private var isStopping = false
    private var lastFailure = RedisError(.notConnected)
    private var reconnectHandlers: [@LoopActor () -> Void] = []

    /// Makes a connection that does nothing before ``start()``.
    public init(_ configuration: RedisConfiguration, logger: Logger, metrics: Metrics?) {
        self.configuration = configuration
        reconnector = Reconnector(configuration, use: "commands", logger: logger, metrics: metrics)
        commands = metrics?.counter("teller_redis_commands_total", "Commands sent to Redis.")
        reconnector.prepare = { @LoopActor [weak self] (link) async throws(RedisError) in try await self?.prepare(link)
        }
        reconnector.lost = { [weak self] in self?.lost($0) }
        reconnector.failed = { [weak self] in self?.attemptFailed($0) }
    }

    // MARK: - Life

    /// Begins to connect, and to connect again whenever the connection is lost.
    public func start() { reconnector.start() }

    /// Takes no more commands, waits for the replies that are due and closes.
    public func stop() async {
        isStopping = true
        link = nil
        wakeWaiters(.failure(RedisError(.notConnected, "the connection was stopped")))
        await reconnector.stop()
    }

    /// True when a command sent now would be written to a server that passed ``RedisConfiguration/validate``.
    public var isConnected: Bool { usableLink != nil }

    /// Why ``isConnected`` is false; nil when it is true.
    public var failure: RedisError? { isConnected ? nil : lastFailure }

    /// Commands that wait for their replies.
    public var inFlightCount: Int { link?.inFlightCount ?? 0 }

    /// Waits until the connection can be used.
    ///
    /// - Throws: The last failure when `limit` passes first or the task is cancelled; a wrong password, missing permission,
    ///   a refusal and the like at once.
    public func ready(within limit: Duration) async throws(RedisError) {
        guard usableLink == nil else { return }
        guard try await waitUntilReady(before: .now + limit, isCommand: false) else { throw lastFailure }
    }

    /// Calls `body` after each connect but the first, before commands of others can notice.
    public func onReconnect(_ body: @escaping @LoopActor () -> Void) {
        reconnectHandlers.append(body)
    }

    // MARK: - Commands

    /// Sends one command and waits for its reply.
    ///
    /// Mark it `idempotent` when doing it twice is doing it once: it is then sent again, within its deadline, when the
    /// connection was lost or the server turned out to be a replica.
    ///
    /// - Returns: The reply, which is no error.
    /// - Throws: The server's error reply, or what happened to the connection. Errors inside an array reply stay values.
    public func send(_ arguments: [RedisArgument], idempotent: Bool = false) async throws(RedisError) -> RedisValue {
        try await perform(idempotent: idempotent) { link, deadline, recipient in
            link.send(arguments, deadline: deadline, recipient)
        }
    }

    /// Sends one command without waiting for its reply; nothing is sent while there is no connection.
    ///
    /// For hints whose loss does no harm.
    public func post(_ arguments: [RedisArgument]) {
        guard let link = usableLink else { return }
        commands?.increment()
        link.send(arguments, .closure { _ in })
    }

    /// Sends several commands one behind the other and waits for all replies.
    ///
    /// This is no transaction: commands of others may run between them, a failed one does not stop the next, and when the
    /// connection is lost a first part may have been applied. Nothing is sent again.
    public func send(pipeline: [[RedisArgument]]) async -> [Result<RedisValue, RedisError>] {
        guard !pipeline.isEmpty else { return [] }
        guard let link = usableLink else { return pipeline.map { _ in .failure(notConnected) } }
        commands?.increment(by: pipeline.count)
        return await withUnsafeContinuation { continuation in
            let replies = PipelineReplies(count: pipeline.count, continuation)
            for (index, arguments) in pipeline.enumerated() {
                link.send(arguments, .pipeline(replies, index: index))
            }
        }
    }

    /// Runs a script: EVALSHA, and EVAL when the server does not have it (any more).
    ///
    /// - Throws: As ``send(_:idempotent:)``. A script that failed on its way may have written something
    ///   (``RedisError/mayHaveBeenApplied``).
    public func evaluate(
        _ script: RedisScript, keys: [RedisArgument], arguments: [RedisArgument], idempotent: Bool = false
    ) async throws(RedisError) -> RedisValue {
        do throws(RedisError) {
            return try await perform(idempotent: idempotent) { link, deadline, recipient in
                let verb = self.script.verb(for: script, on: link)
                link.send(verb, keys: keys, arguments: arguments, deadline: deadline, recipient)
            }
        } catch {
            guard error.kind == .noScript else { throw error }
            return try await perform(idempotent: idempotent) { link, deadline, recipient in
                let verb = RedisScript.Verb.eval(script.source.text)
                link.send(verb, keys: keys, arguments: arguments, deadline: deadline, recipient)
            }
        }
    }

    /// Runs a script now, for ``BatchedScript``; `completion` is called once.
    func evaluate(
        _ script: RedisScript, _ parts: ScriptParts, _ completion: @escaping @LoopActor (RedisLink.Reply) -> Void
    ) {
        guard let link = usableLink else { return completion(.failure(notConnected)) }
        commands?.increment()
        let verb = self.script.verb(for: script, on: link)
        let first = RedisLink.Recipient.closure { reply in
            guard case .failure(let error) = reply, error.kind == .noScript, link.isOpen else {
                return completion(reply)
            }
            link.send(.eval(script.source.text), parts, .closure(completion))
        }
        link.send(verb, parts, first)
    }

    private func perform(
        idempotent: Bool, _ send: (RedisLink, MonotonicInstant?, RedisLink.Recipient) -> Void
    ) async throws(RedisError) -> RedisValue {
        guard idempotent else {
            guard let link = usableLink else { throw notConnected }
            commands?.increment()
            return try await withUnsafeContinuation { send(link, nil, .task($0)) }.get()
        }
        let deadline = MonotonicInstant.now + configuration.commandDeadline
        while true {
            if let link = usableLink {
                commands?.increment()
                let reply = await withUnsafeContinuation { send(link, deadline, .task($0)) }
                guard case .failure(let error) = reply, error.mayBeCuredByReconnecting else { return try reply.get() }
                lastFailure = error
            }
            guard try await waitUntilReady(before: deadline) else { throw lastFailure }
        }
    }

    // MARK: - Being ready

    private var usableLink: RedisLink? {
        guard let link, link.isOpen else { return nil }
        return link
    }

    private var notConnected: RedisError {
        RedisError(.notConnected, isStopping ? "the connection was stopped" : lastFailure.message)
    }

    private func prepare(_ link: RedisLink) async throws(RedisError) {
        if let validate = configuration.validate {
            do {
                try await validate(RedisHandshake(link: link))
            } catch let error as RedisError {
                throw error
            } catch {
                throw RedisError(.refused, "\(error)")
            }
        }
        guard link.isOpen, !isStopping else { throw RedisError(.notConnected, "lost while it was checked") }
        self.link = link
        if hasBeenReady { for handler in reconnectHandlers { handler() } }
        hasBeenReady = true
        wakeWaiters(.success(()))
    }

    private func lost(_ reason: RedisError) {
        link = nil
        lastFailure = reason
    }

    private func attemptFailed(_ error: RedisError) {
        lastFailure = error
        // Waiting would not help who starts. A command waits on: after a failover the first server that answers may be
        // one that is refused, and the next one right.
        guard error.isWrongConfiguration else { return }
        for waiter in waiters.values where !(waiter.isCommand && error.kind == .refused) {
            waiter.woken.complete(.failure(error))
        }
    }

    @LoopActor private struct Waiter {
        let woken = Completion<Result<Void, RedisError>>()
        let isCommand: Bool
    }

    /// Waits for a usable link; false when the time is up first.
    func waitUntilReady(before deadline: MonotonicInstant, isCommand: Bool = true) async throws(RedisError) -> Bool {
        guard usableLink == nil else { return true }
        let left = deadline - .now
        guard !isStopping, left > .zero, waiters.count < Self.waitersMax else { return false }
        let waiter = Waiter(isCommand: isCommand)
        let woken = waiter.woken
        let id = waiterCount
        waiterCount += 1
        waiters[id] = waiter
        let timeUp = RedisError(.deadlineExceeded)
        let timer = EventLoop.shared.timer(after: left) { woken.complete(.failure(timeUp)) }
        defer {
            timer.cancel()
            waiters[id] = nil
        }
        let outcome = await withTaskCancellationHandler {
            await woken.wait()
        } onCancel: {
            EventLoop.shared.perform { woken.complete(.failure(timeUp)) }
        }
        switch outcome {
        case .success: return true
        case .failure(timeUp): return false
        case .failure(let error): throw error
        }
    }

    private func wakeWaiters(_ result: Result<Void, RedisError>) {
        for waiter in waiters.values { waiter.woken.complete(result) }
        waiters.removeAll()
    }
}

/// What servers said the digests of scripts are; a digest depends on the text alone, so it is kept over reconnects.
@LoopActor
final class ScriptDigests {
    private static let question: RedisScript.Verb = .eval(Array("return redis.sha1hex(ARGV[1])".utf8))

    private struct Entry {
        /// Keeps the identity from being used for another script.
        let source: RedisScript.Source
        var digest: [UInt8]?
    }

    private var entries: [ObjectIdentifier: Entry] = [:]

    /// EVALSHA when the digest is known; else EVAL, after asking for the digest.
    func verb(for script: RedisScript, on link: RedisLink) -> RedisScript.Verb {
        let id = ObjectIdentifier(script.source)
        if let entry = entries[id] {
            return entry.digest.map { .evalsha($0) } ?? .eval(script.source.text)
        }
        entries[id] = Entry(source: script.source, digest: nil)
        link.send(
            Self.question, keys: [], arguments: [.bytes(script.source.text)],
            .closure { [weak self] reply in
                // Without an answer the entry goes, so that the next call asks again.
                let digest = (try? reply.get())?.bytes
                if let digest { self?.entries[id]?.digest = digest } else { self?.entries[id] = nil }
            })
        return .eval(script.source.text)
    }
}
