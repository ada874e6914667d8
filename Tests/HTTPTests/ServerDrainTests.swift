import HTTP
import ServiceRuntime
import TestSupport
import Testing

@Suite struct ServerDrainTests {
    @Test func answersWhatItHoldsAndTakesNothingNew() async throws {
        let tally = await Tally()
        let (server, port) = try await startServer(HTTPServer.Configuration()) { router in
            router.on(.get, "/wait") { _ in
                tally.begun += 1
                await tally.opened.wait()
                return .text(200, "held")
            }
        }
        let held = try await RawSocket(port: port)
        await held.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        let idle = try await RawSocket(port: port)
        try await eventually { await tally.begun == 1 }
        try await eventually { await server.connectionCount == 2 }
        async let report = server.stop(within: .seconds(10))
        #expect(await idle.isClosedByPeer)
        await #expect(throws: RawSocket.Failure.self) { _ = try await RawSocket(port: port) }
        await tally.opened.complete(())
        let answer = await held.receiveAll()
        #expect(answer.hasSuffix("held"))
        #expect(answer.contains("Connection: close"))
        #expect(await report == HTTPServer.DrainReport(answered: 1, abandoned: 0))
    }

    @Test func answers503AtTheDeadlineAndCancelsTheHandler() async throws {
        let tally = await Tally()
        let (server, port) = try await startServer(HTTPServer.Configuration()) { router in
            router.on(.get, "/wait") { _ in
                tally.begun += 1
                try? await pause(for: .seconds(60))
                tally.ended += 1
                return .text(200, "too late")
            }
        }
        let sockets = try await makeSockets(3, port: port)
        for socket in sockets { await socket.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n") }
        try await eventually { await tally.begun == 3 }
        let report = await server.stop(within: .milliseconds(50))
        #expect(report == HTTPServer.DrainReport(answered: 0, abandoned: 3))
        for socket in sockets { #expect(await socket.receiveAll().hasPrefix("HTTP/1.1 503")) }
        try await eventually { await tally.ended == 3 }
    }

    @Test func stopsAtOnceWhenNothingIsHeld() async throws {
        let (server, _) = try await startServer(HTTPServer.Configuration()) { _ in }
        let start = MonotonicInstant.now
        #expect(await server.stop(within: .seconds(30)) == HTTPServer.DrainReport())
        #expect(start.elapsedSeconds < 5)
    }
}
