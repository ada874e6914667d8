import HTTP
import ServiceRuntime
import TestSupport
import Testing

@Suite struct HTTPServerTests {
    @LoopActor
    static func routes(_ router: Router) {
        router.on(.get, "/hello") { _ in .text(200, "hello") }
        router.on(.get, "/turn") { _ in
            try? await pause(for: .milliseconds(1))
            return .text(200, "after a wait")
        }
        router.on(.post, "/echo") { request in OutgoingResponse(status: 200, body: request.body) }
        router.on(.post, "/small", bodyBytesMax: 10) { request in OutgoingResponse(status: 200, body: request.body) }
        router.on(.get, "/items/{id}") { request in .text(200, request.pathParameters["id"] ?? "none") }
        router.on(.get, "/query") { request in .text(200, request.query("a") ?? "none") }
        router.on(.get, "/header") { request in .text(200, request.header("x-mine") ?? "none") }
    }

    private func exchange(
        _ bytes: String, _ configuration: HTTPServer.Configuration = HTTPServer.Configuration()
    ) async throws -> String {
        try await withServer(configuration, routes: Self.routes) { _, port in
            let socket = try await RawSocket(port: port)
            await socket.send(bytes)
            return await socket.receiveAll()
        }
    }

    private static func get(_ path: String, _ headers: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(headers)\r\n"
    }

    private static func post(_ path: String, _ headers: String, _ body: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(headers)\r\n\(body)"
    }

    @Test(arguments: [
        (get("/hello"), "HTTP/1.1 200", "hello"),
        (get("/turn"), "HTTP/1.1 200", "after a wait"),
        (get("/nothing"), "HTTP/1.1 404", "urn:teller:problem:not-found"),
        (get("/items/a%2Fb"), "HTTP/1.1 200", "\r\na/b"),
        (get("/items/%C3%A4"), "HTTP/1.1 200", "ä"),
        (get("/items/a%00b"), "HTTP/1.1 400", "malformed-request"),
        (get("/items/%FF"), "HTTP/1.1 400", "malformed-request"),
        (get("/items/%2"), "HTTP/1.1 400", "malformed-request"),
        (get("/items/../hello"), "HTTP/1.1 400", "malformed-request"),
        (get("/items/%2e%2e"), "HTTP/1.1 400", "malformed-request"),
        (get("/query?a=1%2B1&b=2"), "HTTP/1.1 200", "\r\n1+1"),
        (get("/query?a=%zz"), "HTTP/1.1 400", "malformed-request"),
        (get("/query?a=1&a=2"), "HTTP/1.1 400", "twice"),
        (get("/header", "X-Mine: yes\r\n"), "HTTP/1.1 200", "\r\nyes"),
        (post("/hello", "Content-Length: 2\r\n", "{}"), "HTTP/1.1 405", "Allow: GET, HEAD"),
        (post("/echo", "Content-Length: 5\r\n", "12345"), "HTTP/1.1 200", "\r\n12345"),
        (
            post("/echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), "HTTP/1.1 200",
            "\r\nabcde"
        ),
        (post("/echo", "Content-Length: 5\r\nContent-Length: 6\r\n", "123456"), "HTTP/1.1 400", "malformed-request"),
        (post("/echo", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "HTTP/1.1 400", "exclude"),
        (post("/echo", "Transfer-Encoding: gzip\r\n", "x"), "HTTP/1.1 400", "chunked"),
        (post("/echo", "Content-Length: -5\r\n", "12345"), "HTTP/1.1 400", ""),
        (post("/echo", "Content-Length: 99999999999999999999\r\n", "x"), "HTTP/1.1 413", ""),
        (post("/small", "Content-Length: 10\r\n", "1234567890"), "HTTP/1.1 200", "1234567890"),
        (post("/small", "Content-Length: 11\r\n", "12345678901"), "HTTP/1.1 413", "At most 10 bytes"),
        (
            post("/small", "Transfer-Encoding: chunked\r\n", "b\r\n12345678901\r\n0\r\n\r\n"), "HTTP/1.1 413",
            "body-too-large"
        ),
        ("HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200", "Content-Length: 5\r\n"),
        ("GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400", ""),
    ])
    func answers(_ request: String, _ statusLine: String, _ part: String) async throws {
        let answer = try await exchange(request)
        #expect(answer.hasPrefix(statusLine), "\(answer)")
        #expect(answer.contains(part), "\(answer)")
        if part.contains("problem") || part.contains("malformed") {
            #expect(answer.contains("Content-Type: application/problem+json"))
        }
    }

    @Test func headHasNoBody() async throws {
        let answer = try await exchange("HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        #expect(answer.hasSuffix("\r\n\r\n"), "\(answer)")
    }

    struct Garbage: Sendable, CustomTestStringConvertible {
        let name: String
        let bytes: String
        var testDescription: String { name }

        init(_ name: String, _ bytes: String) {
            self.name = name
            self.bytes = bytes
        }

        /// A request with these headers and this body, on a connection that its client would keep.
        init(_ name: String, headers: String, _ body: String = "") {
            self.init(name, "POST /echo HTTP/1.1\r\nHost: x\r\n\(headers)\r\n\(body)")
        }

        init(_ name: String, chunks: String) { self.init(name, headers: "Transfer-Encoding: chunked\r\n", chunks) }
    }

    static let garbage: [Garbage] =
        [
            Garbage("binary", "\u{0}\u{1}\u{2}\u{3}\r\n\r\n"), Garbage("no HTTP", "no http at all\r\n\r\n"),
            Garbage("a method only", "GET\r\n\r\n"),
            Garbage("another version", "GET /hello HTTP/9.9\r\nHost: x\r\n\r\n"),
            Garbage("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Garbage("TLS", "\u{16}\u{3}\u{1}\u{2}\u{0}\r\n\r\n"),
            Garbage("an endless first line", String(repeating: "x", count: 100_000)),
            Garbage("a long path", "GET /\(String(repeating: "p", count: 50_000)) HTTP/1.1\r\nHost: x\r\n\r\n"),
            Garbage(
                "a long query", "GET /query?a=\(String(repeating: "q", count: 50_000)) HTTP/1.1\r\nHost: x\r\n\r\n"),
            Garbage("a long header", headers: "X-Long: \(String(repeating: "h", count: 50_000))\r\n"),
            Garbage("a long name", headers: "\(String(repeating: "h", count: 50_000)): x\r\n"),
            Garbage("many headers", headers: String(repeating: "X-A: b\r\n", count: 5000)),
            Garbage("a header without colon", headers: "X-Nothing\r\n"),
        ]
        + ["abc", "-5", "+5", "1e3", "0x5", "5 5", "5,5", "", "99999999999999999999"].map {
            Garbage("Content-Length: \($0)", headers: "Content-Length: \($0)\r\n", "12345")
        }
        + [
            Garbage("no chunk size", chunks: "hello\r\n"),
            Garbage("a negative chunk", chunks: "-5\r\nhello\r\n0\r\n\r\n"),
            Garbage("an overflowing chunk", chunks: "fffffffffffffffff\r\nhello\r\n"),
            Garbage("a chunk longer than it says", chunks: "2\r\nhello\r\n0\r\n\r\n"),
            Garbage("an endless chunk size", chunks: String(repeating: "0", count: 50_000)),
            Garbage("an endless chunk extension", chunks: "5;\(String(repeating: "x", count: 50_000))"),
        ]

    /// What libmicrohttpd refuses by itself, with pages of its own: each is a 4xx or a closed connection.
    ///
    /// A chunk's size without end fills its buffer without making it complain; the time-out for slow clients ends that one.
    @Test(arguments: garbage) func garbageIsRefusedWithoutHanging(_ garbage: Garbage) async throws {
        var configuration = HTTPServer.Configuration()
        configuration.idleTimeout = .seconds(1)
        configuration.receiveTimeout = .seconds(2)
        let tally = await Tally()
        try await withServer(
            configuration,
            routes: { router in
                router.on(.get, "/hello") { _ in .text(200, "hello") }
                for (method, path) in [(HTTPMethod.post, "/echo"), (.get, "/query")] {
                    router.on(method, path) { _ in
                        tally.begun += 1
                        return .text(200, "reached")
                    }
                }
            }
        ) { server, port in
            let socket = try await RawSocket(port: port)
            await socket.send(garbage.bytes)
            let answer = await socket.receiveAll()
            let isRefusal = answer.isEmpty || answer.hasPrefix("HTTP/1.1 4") || answer.hasPrefix("HTTP/1.1 505")
            #expect(isRefusal && answer.utf8.count < 2000, "\(answer.prefix(200))")
            #expect(await socket.isClosedByPeer)
            #expect(await tally.begun == 0)
            // And the server is still there, with nothing left of it.
            let other = try await RawSocket(port: port)
            await other.send(Self.get("/hello"))
            #expect(await other.receiveAll().hasSuffix("hello"))
            try await eventually("no connection is left") { await server.connectionCount == 0 }
        }
    }

    @Test func aHugeDeclaredBodyIsRefusedBeforeItIsSent() async throws {
        let answer = try await exchange(Self.post("/echo", "Content-Length: 1000000000\r\n", "the beginning"))
        #expect(answer.hasPrefix("HTTP/1.1 413"), "\(answer)")
        #expect(answer.contains("body-too-large"))
    }

    @Test func anEndlessChunkedBodyIsCutOff() async throws {
        try await withServer(routes: Self.routes) { _, port in
            let socket = try await RawSocket(port: port)
            await socket.send(Self.post("/small", "Transfer-Encoding: chunked\r\n", ""))
            let chunk = "10000\r\n" + String(repeating: "x", count: 0x10000) + "\r\n"
            var sent = 0
            while sent < 1000, await socket.send(chunk) { sent += 1 }
            #expect(sent < 1000)
        }
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
        try await withServer(routes: Self.routes) { _, port in
            let socket = try await RawSocket(port: port)
            let one = "GET /items/1 HTTP/1.1\r\nHost: x\r\n\r\n"
            let wait = "GET /turn HTTP/1.1\r\nHost: x\r\n\r\n"
            await socket.send(one + wait + Self.get("/items/3"))
            let answer = await socket.receiveAll()
            let bodies = answer.split(separator: "\r\n\r\n").dropFirst().map { $0.split(separator: "HTTP")[0] }
            #expect(bodies == ["1", "after a wait", "3"], "\(answer)")
        }
    }

    @Test func aConnectionServesManyRequests() async throws {
        try await withServer(routes: Self.routes) { _, port in
            let socket = try await RawSocket(port: port)
            for path in ["/hello", "/turn", "/nothing", "/hello"] {
                await socket.send("GET \(path) HTTP/1.1\r\nHost: x\r\n\r\n")
                #expect(await !socket.receive(until: "\r\n\r\n").isEmpty)
            }
            // Also after a body that was too large but could be read.
            await socket.send("POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n123456789012")
            #expect(await socket.receive(until: "body-too-large").contains("413"))
            await socket.send(Self.get("/hello"))
            #expect(await socket.receiveAll().hasSuffix("hello"))
        }
    }

    /// A configuration in which no time-out ends a connection while a test waits.
    private static var patient: HTTPServer.Configuration {
        var configuration = HTTPServer.Configuration()
        configuration.idleTimeout = .seconds(600)
        configuration.receiveTimeout = .seconds(600)
        return configuration
    }

    @Test(arguments: [
        "POST /ec", "POST /echo HTTP/1.1\r\nHo", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
    ]) func halfARequestThenTheEndReachesNoHandler(_ half: String) async throws {
        let tally = await Tally()
        try await withServer(
            Self.patient,
            routes: { router in
                router.on(.post, "/echo") { request in
                    tally.begun += 1
                    return OutgoingResponse(status: 200, body: request.body)
                }
            }
        ) { server, port in
            let socket = try await RawSocket(port: port)
            try await eventually("the connection") { await server.connectionCount == 1 }
            await socket.sendAndClose(half)
            try await eventually("no connection is left") { await server.connectionCount == 0 }
        }
        #expect(await tally.begun == 0)
    }

    /// As `nc -N` does: nothing but the end of the stream follows the request.
    @Test func anEndThatComesWithTheRequestIsSeenAfterTheAnswer() async throws {
        try await withServer(Self.patient, routes: Self.routes) { server, port in
            let socket = try await RawSocket(port: port)
            try await eventually("the connection") { await server.connectionCount == 1 }
            await socket.sendAndFinish("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(await socket.receiveAll().hasSuffix("hello"))
            #expect(await socket.isClosedByPeer)
            try await eventually("no connection is left") { await server.connectionCount == 0 }
        }
    }

    @Test func silentAndSlowClientsAreClosed() async throws {
        var configuration = HTTPServer.Configuration()
        configuration.idleTimeout = .seconds(1)
        configuration.receiveTimeout = .seconds(2)
        try await withServer(configuration, routes: Self.routes) { _, port in
            let silent = try await RawSocket(port: port)
            let slow = try await RawSocket(port: port)
            let slowBody = try await RawSocket(port: port)
            await slowBody.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            #expect(await silent.isClosedByPeer)
            // Never silent for a second, and yet never done.
            await slow.send("GET /hello HTTP/1.1\r\nHost: x\r\nX-A: ")
            var isOpen = true
            let start = MonotonicInstant.now
            while isOpen, start.elapsedSeconds < 10 {
                isOpen = await slow.send("a")
                if isOpen { isOpen = await slowBody.send("b") }
                try await pause(for: .milliseconds(200))
            }
            #expect(!isOpen)
        }
    }

    @Test func aClientThatGoesWhileItsHandlerAwaitsIsNoticed() async throws {
        let tally = await Tally()
        try await withServer(routes: { router in
            router.on(.get, "/wait") { request in
                tally.begun += 1
                try? await pause(for: .seconds(60))
                tally.note = request.clientIsGone ? "gone" : "there"
                tally.ended += 1
                return .text(200, "nobody reads this")
            }
        }) { server, port in
            let sockets = try await makeSockets(20, port: port)
            for (index, socket) in sockets.enumerated() {
                await socket.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
                if index.isMultiple(of: 2) { await socket.send("GET /wait HT") }
            }
            try await eventually { await tally.begun == 20 }
            for (index, socket) in sockets.enumerated() {
                if index.isMultiple(of: 4) { socket.reset() } else { socket.close() }
            }
            // The pipelined half-requests hide the end of the stream from half of them until they are answered.
            try await eventually("the others are cancelled") { await tally.ended >= 10 }
            #expect(await tally.note == "gone")
            _ = await server.stop(within: .zero)
            try await eventually("all handlers end") { await tally.ended == 20 }
            #expect(await server.connectionCount == 0)
        }
    }

    @Test func connectionsOverTheLimitWaitForTheirTurn() async throws {
        var configuration = HTTPServer.Configuration()
        configuration.connectionsMax = 2
        try await withServer(configuration, routes: Self.routes) { _, port in
            let first = try await RawSocket(port: port)
            let second = try await RawSocket(port: port)
            for socket in [first, second] {
                await socket.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
                #expect(await socket.receive(until: "hello").hasSuffix("hello"))
            }
            let third = try await RawSocket(port: port)
            await third.send(Self.get("/hello"))
            first.close()
            #expect(await third.receiveAll().hasSuffix("hello"))
        }
    }

    @Test func processesShareAPortOnlyWhenAsked() async throws {
        var configuration = HTTPServer.Configuration()
        configuration.reusePort = true
        try await withServer(configuration, routes: Self.routes) { _, port in
            var shared = configuration
            shared.port = port
            try await withServer(shared, routes: Self.routes) { _, other in #expect(other == port) }
            var alone = shared
            alone.reusePort = false
            await #expect(throws: ListenError.self) { _ = try await startServer(alone, Self.routes) }
        }
    }

    @Test func handlersRunOnTheLoop() async throws {
        let answer = try await withServer(routes: { router in
            router.on(.get, "/where") { _ in
                let before = EventLoop.shared.isCurrent
                try? await pause(for: .milliseconds(1))
                let inside = await withTaskGroup(of: Bool.self) { group in
                    group.addTask { @LoopActor @Sendable in EventLoop.shared.isCurrent }
                    return await group.next() ?? false
                }
                return .text(200, "\(before) \(inside) \(EventLoop.shared.isCurrent)")
            }
        }) { _, port in
            let socket = try await RawSocket(port: port)
            await socket.send(Self.get("/where"))
            return await socket.receiveAll()
        }
        #expect(answer.hasSuffix("true true true"))
    }
}
