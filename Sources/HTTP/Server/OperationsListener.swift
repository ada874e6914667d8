public import ServiceRuntime

/// The second listener of every long-running program: `/metrics`, `/healthz` and `/readyz`, for machines only.
///
/// Kept off the public port because it needs no key and tells how the inside is doing.
@LoopActor
public final class OperationsListener {
    /// Why a program is not ready, by name of what is missing; empty means ready.
    public typealias Readiness = @LoopActor @Sendable () async -> [String: String]

    /// The routes, to which an owner may add its own before ``start()``.
    public let router = Router()
    private let server: HTTPServer

    /// Makes the listener.
    ///
    /// - Parameters:
    ///   - configuration: Where to listen; loopback unless told otherwise.
    ///   - metrics: What `/metrics` shows.
    ///   - logger: For the listener's own troubles.
    ///   - readiness: Asked for every `/readyz`; what it returns is shown with 503.
    public init(
        _ configuration: HTTPServer.Configuration, metrics: Metrics, logger: Logger, readiness: @escaping Readiness
    ) {
        server = HTTPServer(configuration, router: router, logger: logger)
        router.on(.get, "/metrics") { _ in
            OutgoingResponse(
                status: 200, headers: [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")],
                body: Array(metrics.render().utf8))
        }
        router.on(.get, "/healthz") { _ in .json(200, Array(#"{"status":"alive"}"#.utf8)) }
        router.on(.get, "/readyz") { _ in
            let missing = await readiness()
            guard !missing.isEmpty else { return .json(200, Array(#"{"status":"ready"}"#.utf8)) }
            return Problem(status: 503, reason: "not-ready", title: "Not ready to work.") { writer in
                writer.member(
                    "missing",
                    object: { writer in
                        for (name, why) in missing.sorted(by: { $0.key < $1.key }) { writer.member(dynamic: name, why) }
                    })
            }.response
        }
    }

    /// Begins to listen; see ``HTTPServer/start()``.
    @discardableResult
    public func start() throws -> Int { try server.start() }

    /// Stops; see ``HTTPServer/stop(within:)``.
    public func stop(within patience: Duration = .seconds(1)) async { _ = await server.stop(within: patience) }
}
