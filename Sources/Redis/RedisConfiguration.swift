public import ServiceRuntime

/// Commands can be sent to it: a connection, or a connection that is still being checked.
@LoopActor
public protocol RedisCommanding: Sendable {
    /// Sends one command and waits for its reply; see ``RedisConnection/send(_:idempotent:)``.
    func send(_ arguments: [RedisArgument], idempotent: Bool) async throws(RedisError) -> RedisValue
}

/// How a connection connects and what it waits for; used by all three kinds of connection.
public struct RedisConfiguration: Sendable {
    /// Looks at a server before commands of others flow to it, and throws to refuse it (role, settings, identity).
    public typealias Validation = @LoopActor @Sendable (RedisHandshake) async throws -> Void

    /// Where the server is.
    public var address: RedisAddress
    /// Time for one attempt: name, connect, login; 1 s, so that an attempt that began while the server was unreachable
    /// does not delay the next one by more when it is back.
    public var connectTimeout: Duration
    /// Time from sending a command to its reply, 5 s; when it passes the socket is closed.
    public var commandDeadline: Duration
    /// Run after every connect, before commands flow.
    public var validate: Validation?

    /// Names the server; the rest has defaults.
    public init(
        address: RedisAddress, connectTimeout: Duration = .seconds(1), commandDeadline: Duration = .seconds(5),
        validate: Validation? = nil
    ) {
        self.address = address
        self.connectTimeout = connectTimeout
        self.commandDeadline = commandDeadline
        self.validate = validate
    }
}

/// A connection that is logged in but not yet in use, as ``RedisConfiguration/validate`` sees it.
@LoopActor
public struct RedisHandshake: RedisCommanding {
    let link: RedisLink

    /// Sends one command; nothing is sent again when the connection fails, since the whole check is then repeated.
    public func send(_ arguments: [RedisArgument], idempotent: Bool = false) async throws(RedisError) -> RedisValue {
        try await link.send(arguments)
    }
}

extension RedisLink {
    /// Sends a command and waits for its reply.
    func send(_ arguments: [RedisArgument], deadline: MonotonicInstant? = nil) async throws(RedisError) -> RedisValue {
        try await withUnsafeContinuation { send(arguments, deadline: deadline, .task($0)) }.get()
    }

    /// Resolves, connects (each address in turn), logs in and selects the database: a link that answers commands.
    static func open(_ configuration: RedisConfiguration) async throws(RedisError) -> RedisLink {
        let end = MonotonicInstant.now + configuration.connectTimeout
        var failure = RedisError(.notConnected, "the name has no address")
        for endpoint in try await endpoints(of: configuration.address, before: end) {
            let left = end - .now
            guard left > .zero else { throw failure }
            let link: RedisLink
            do throws(RedisError) {
                link = try await connect(to: endpoint, limit: left, commandDeadline: configuration.commandDeadline)
            } catch {
                failure = error
                continue
            }
            do throws(RedisError) {
                try await link.logIn(configuration.address, before: end)
                return link
            } catch {
                link.close(error)
                throw error
            }
        }
        throw failure
    }

    private static func endpoints(
        of address: RedisAddress, before end: MonotonicInstant
    ) async throws(RedisError) -> [RedisAddress.Endpoint] {
        guard case .tcp(let host, let port) = address.endpoint else { return [address.endpoint] }
        let resolved = Completion<Result<[SocketAddress], RedisError>>()
        let timer = EventLoop.shared.timer(after: end - .now) {
            resolved.complete(.failure(RedisError(.notConnected, "resolving the name took too long")))
        }
        // The resolver cannot be interrupted: when it is late its answer is dropped.
        Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            resolved.complete(await resolve(host, port))
        }
        let addresses = await resolved.wait()
        timer.cancel()
        return try addresses.get().map { .tcp(host: $0.numericHost, port: $0.port) }
    }

    private static func resolve(_ host: String, _ port: Int) async -> Result<[SocketAddress], RedisError> {
        do throws(LoopError) {
            return .success(try await EventLoop.shared.resolve(host: host, port: port))
        } catch {
            return .failure(RedisError(.notConnected, error.description))
        }
    }

    private func logIn(_ address: RedisAddress, before end: MonotonicInstant) async throws(RedisError) {
        if let password = address.password {
            let user = address.user.map { [RedisArgument.string($0)] } ?? []
            _ = try await send(["AUTH"] + user + [.string(password)], deadline: end)
        }
        if address.database != 0 {
            _ = try await send(["SELECT", .int(Int64(address.database))], deadline: end)
        }
        do throws(RedisError) {
            _ = try await send(["PING"], deadline: end)
        } catch {
            // PING tells whether the server is of use now (LOADING, MASTERDOWN, NOAUTH, …). An ACL user may lack PING, and a
            // server with a full disk answers it with MISCONF while reads still work.
            guard error.kind == .noPermission || error.kind == .misconf else { throw error }
        }
    }
}
