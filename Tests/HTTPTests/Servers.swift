import HTTP
import ServiceRuntime

/// Runs `body` with a server whose routes `routes` adds, and stops it afterwards.
@discardableResult
func withServer<Answer: Sendable>(
    _ configuration: HTTPServer.Configuration = HTTPServer.Configuration(),
    routes: @LoopActor @Sendable (Router) -> Void,
    _ body: (HTTPServer, Int) async throws -> Answer
) async throws -> Answer {
    let (server, port) = try await startServer(configuration, routes)
    do {
        let answer = try await body(server, port)
        _ = await server.stop(within: .seconds(2))
        return answer
    } catch {
        _ = await server.stop(within: .zero)
        throw error
    }
}

@LoopActor
func startServer(
    _ configuration: HTTPServer.Configuration, _ routes: @LoopActor @Sendable (Router) -> Void
) throws -> (HTTPServer, Int) {
    let router = Router()
    routes(router)
    let server = HTTPServer(configuration, router: router, logger: .disabled)
    return (server, try server.start())
}

/// Runs `body` with a client, and stops it afterwards.
@discardableResult
func withClient<Answer: Sendable>(
    _ configuration: HTTPClient.Configuration = HTTPClient.Configuration(),
    _ body: (HTTPClient) async throws -> Answer
) async throws -> Answer {
    let client = await HTTPClient(configuration, logger: .disabled)
    do {
        let answer = try await body(client)
        await client.stop()
        return answer
    } catch {
        await client.stop()
        throw error
    }
}

/// Counts what happened on the loop.
@LoopActor
final class Tally {
    var begun = 0
    var ended = 0
    var cancelled = 0
    var note = ""
    let opened = Completion<Void>()
}
