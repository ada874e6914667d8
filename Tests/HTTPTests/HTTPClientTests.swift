import HTTP
import ServiceRuntime
import TestSupport
import Testing

@Suite struct HTTPClientTests {
    private func failure(
        _ client: HTTPClient, _ url: String, _ deadline: Duration = .seconds(10), answerBytesMax: Int = 1 << 20
    ) async -> HTTPClientError? {
        do {
            _ = try await client.send(OutgoingRequest(.get, url, deadline: deadline, answerBytesMax: answerBytesMax))
            return nil
        } catch { return error }
    }

    @LoopActor
    private static func routes(_ router: Router) {
        router.on(.get, "/hello") { _ in
            OutgoingResponse(
                status: 200, headers: [("X-Mine", " a value "), ("Retry-After", "3")], body: Array("hi".utf8))
        }
        router.on(.get, "/redirect") { _ in OutgoingResponse(status: 302, headers: [("Location", "/hello")]) }
        router.on(.get, "/big") { _ in OutgoingResponse(status: 200, body: [UInt8](repeating: 0x61, count: 200_000)) }
        router.otherwise { request in
            .text(200, "\(request.method.rawValue) \(request.path) \(request.header("X-A") ?? "-") ")
        }
        for method in [HTTPMethod.post, .put, .delete, .patch] {
            router.on(method, "/echo/{id}") { request in
                let id = request.pathParameters["id"] ?? ""
                let text = "\(request.method.rawValue) \(id) \(String(decoding: request.body, as: UTF8.self))"
                return .text(201, text)
            }
        }
    }

    @Test func sendsEveryMethodOverTheSameHandles() async throws {
        try await withServer(routes: Self.routes) { _, port in
            try await withClient { client in
                let base = "http://127.0.0.1:\(port)"
                let body = Array("körper".utf8)
                for _ in 0..<2 {
                    let table: [(HTTPMethod, String, [UInt8]?, String)] = [
                        (.get, "/a?q=1#part", nil, "GET /a - "), (.post, "/echo/1", body, "POST 1 körper"),
                        (.post, "/echo/2", nil, "POST 2 "), (.post, "/echo/3", [], "POST 3 "), (.head, "/x", nil, ""),
                        (.get, "", nil, "GET / - "), (.put, "/echo/4", body, "PUT 4 körper"),
                        (.delete, "/echo/5", nil, "DELETE 5 "), (.patch, "/echo/a%2Fb", body, "PATCH a/b körper"),
                        (.get, "/g", nil, "GET /g - "),
                    ]
                    for (method, path, body, expected) in table {
                        let answer = try await client.send(OutgoingRequest(method, base + path, body: body))
                        #expect(String(decoding: answer.body, as: UTF8.self) == expected)
                    }
                }
                let answer = try await client.send(
                    OutgoingRequest(.get, base + "/h", headers: [("X-A", "b"), ("X-E", "")]))
                #expect(String(decoding: answer.body, as: UTF8.self) == "GET /h b ")
            }
        }
    }

    @Test func readsHeadersAndReportsRedirectsWithoutFollowing() async throws {
        try await withServer(routes: Self.routes) { _, port in
            try await withClient { client in
                let answer = try await client.send(OutgoingRequest(.get, "http://127.0.0.1:\(port)/hello"))
                #expect(answer.status == 200)
                #expect(answer.header("x-mine") == "a value")
                #expect(answer.header("RETRY-AFTER") == "3")
                #expect(answer.header("X-Min") == nil)
                let redirect = try await client.send(OutgoingRequest(.get, "http://127.0.0.1:\(port)/redirect"))
                #expect(redirect.status == 302)
                #expect(redirect.header("Location") == "/hello")
                #expect(redirect.body.isEmpty)
            }
        }
    }

    @Test func thousandsAtOnceShareFewerConnectionsThanRequests() async throws {
        let tally = await Tally()
        try await withServer(routes: { router in
            router.on(.get, "/n/{n}") { request in
                tally.begun += 1
                try? await pause(for: .milliseconds(2))
                return .text(200, request.pathParameters["n"] ?? "")
            }
        }) { server, port in
            try await withClient { client in
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for number in 0..<400 {
                        group.addTask {
                            for round in 0..<5 {
                                let n = "\(number)-\(round)"
                                let answer = try await client.send(
                                    OutgoingRequest(.get, "http://127.0.0.1:\(port)/n/\(n)"))
                                guard answer.status == 200, answer.body == Array(n.utf8) else { return 0 }
                            }
                            return 1
                        }
                    }
                    let right = try await group.reduce(0, +)
                    #expect(right == 400)
                }
                #expect(await tally.begun == 2000)
                // HTTP/1.1: a connection per request at once, used again by the next ones.
                #expect(await server.connectionCount <= 400)
            }
            try await eventually("the client closes all") { await server.connectionCount == 0 }
        }
    }

    @Test func requestsOverTheLimitWaitAndTheirDeadlinesRun() async throws {
        var configuration = HTTPClient.Configuration()
        configuration.requestsInFlightMax = 1
        try await withServer(routes: { router in
            router.on(.get, "/slow") { _ in
                try? await pause(for: .milliseconds(300))
                return .text(200, "slow")
            }
        }) { _, port in
            try await withClient(configuration) { client in
                let url = "http://127.0.0.1:\(port)/slow"
                async let first = client.send(OutgoingRequest(.get, url))
                async let second = client.send(OutgoingRequest(.get, url))
                async let late = failure(client, url, .milliseconds(50))
                #expect(await late?.kind == .timeout)
                let statuses = try await [first.status, second.status]
                #expect(statuses == [200, 200])
            }
        }
    }

    @Test(arguments: [
        (ResponseFault.truncated(afterBytes: 10), [HTTPClientError.Kind.truncated]),
        (.truncated(afterBytes: 0), [.truncated, .connectionLost]), (.close, [.connectionLost]),
        (.reset, [.connectionLost]),
        (.hang, [.timeout]),
    ])
    func namesWhatTheServerDidWrong(_ fault: ResponseFault, _ kinds: [HTTPClientError.Kind]) async throws {
        for suspends in [false, true] {
            try await withServer(routes: { router in
                router.on(.get, "/fault") { _ in
                    if suspends { try? await pause(for: .milliseconds(5)) }
                    var response = OutgoingResponse.text(200, String(repeating: "x", count: 1000))
                    response.fault = fault
                    return response
                }
            }) { server, port in
                try await withClient { client in
                    let error = await failure(
                        client, "http://127.0.0.1:\(port)/fault", fault == .hang ? .milliseconds(700) : .seconds(10))
                    let isExpected = error.map { kinds.contains($0.kind) } ?? false
                    #expect(isExpected, "\(String(describing: error)) \(fault)")
                    #expect(error?.isRetryable == true)
                    #expect(error?.wasNeverSent == false)
                }
                try await eventually("the server forgets the connection") { await server.connectionCount == 0 }
            }
        }
    }

    @Test(arguments: [
        ("garbage\r\n\r\n", [HTTPClientError.Kind.badAnswer]),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", [.truncated]),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", [.truncated]),
        ("HTTP/1.1 200 OK\r\nX: \(String(repeating: "h", count: 90_000))\r\n\r\n", [.answerTooLarge]),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n\(String(repeating: "x", count: 1_200_000))",
            [.answerTooLarge]
        ),
        ("", [.connectionLost]),
    ])
    func survivesAnswersThatAreNone(_ bytes: String, _ kinds: [HTTPClientError.Kind]) async throws {
        let server = try ScriptedServer { socket in
            _ = socket.receive(until: "\r\n\r\n")
            socket.send(bytes)
        }
        defer { server.stop() }
        try await withClient { client in
            let error = await failure(client, "http://127.0.0.1:\(server.port)/secret-token")
            let isExpected = error.map { kinds.contains($0.kind) } ?? false
            #expect(isExpected, "\(String(describing: error))")
            #expect(error?.description.contains("secret") == false)
        }
    }

    @Test func anInterimAnswerIsNotTheAnswer() async throws {
        let server = try ScriptedServer { socket in
            _ = socket.receive(until: "\r\n\r\n")
            socket.send(
                "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-Late: 2\r\nContent-Length: 2\r\n\r\nok"
            )
        }
        defer { server.stop() }
        try await withClient { client in
            let answer = try await client.send(OutgoingRequest(.get, "http://127.0.0.1:\(server.port)/"))
            #expect(answer.header("X-Late") == "2")
            #expect(answer.header("X-Early") == nil)
        }
    }

    @Test func aLateAnswerIsATimeoutAndTheNextRequestIsUnharmed() async throws {
        let server = try ScriptedServer { socket in
            while true {
                let request = socket.receive(until: "\r\n\r\n")
                guard !request.isEmpty else { return }
                if request.contains("/late") { pauseThread(milliseconds: 400) }
                socket.send(
                    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\(request.contains("/late") ? "late" : "next")")
            }
        }
        defer { server.stop() }
        try await withClient { client in
            let base = "http://127.0.0.1:\(server.port)"
            #expect(await failure(client, base + "/late", .milliseconds(100))?.kind == .timeout)
            for _ in 0..<10 {
                let answer = try await client.send(OutgoingRequest(.get, base + "/now"))
                #expect(answer.body == Array("next".utf8))
            }
        }
    }

    @Test func anIdleConnectionThatTheServerClosedIsReplaced() async throws {
        let server = try ScriptedServer { socket in
            _ = socket.receive(until: "\r\n\r\n")
            socket.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        defer { server.stop() }
        try await withClient { client in
            for _ in 0..<20 {
                let answer = try await client.send(OutgoingRequest(.get, "http://127.0.0.1:\(server.port)/"))
                #expect(answer.status == 200)
            }
        }
    }

    @Test func theSizeLimitIsExact() async throws {
        try await withServer(routes: Self.routes) { _, port in
            try await withClient { client in
                let url = "http://127.0.0.1:\(port)/big"
                #expect(await failure(client, url, answerBytesMax: 200_000) == nil)
                let error = await failure(client, url, answerBytesMax: 199_999)
                #expect(error?.kind == .answerTooLarge)
                #expect(error?.isRetryable == false)
                #expect(await failure(client, url, answerBytesMax: 200_000) == nil)
            }
        }
    }

    @Test func nobodyThereAndNoSuchName() async throws {
        let (server, port) = try await startServer(HTTPServer.Configuration()) { _ in }
        _ = await server.stop(within: .zero)
        try await withClient { client in
            let refused = await failure(client, "http://127.0.0.1:\(port)/")
            #expect(refused == HTTPClientError(.connect, wasNeverSent: true))
            let unknown = await failure(client, "http://no-such-host.invalid/")
            #expect(unknown == HTTPClientError(.resolve, wasNeverSent: true))
        }
    }

    @Test(arguments: [
        "ftp://127.0.0.1/", "file:///etc/passwd", "/relative", "127.0.0.1/", "http://", "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nX: y", "http://127.0.0.1/ä", "http://127.0.0.1\u{0}/", "http://[::1/", "http://a:99999/",
    ])
    func refusesMalformedURLs(_ url: String) async throws {
        try await withClient { client in
            let error = await failure(client, url)
            #expect(error?.kind == .invalidRequest, "\(String(describing: error))")
            #expect(error?.wasNeverSent == true)
        }
    }

    @Test(arguments: [("A\r\nB", "c"), ("A", "b\r\nC: d"), ("A", "b\u{0}"), ("", "x"), ("A B", "x"), ("A:", "x")])
    func refusesHeadersThatBreakOutOfTheirLine(_ name: String, _ value: String) async throws {
        try await withClient { client in
            await #expect(throws: HTTPClientError(.invalidRequest, wasNeverSent: true)) {
                _ = try await client.send(OutgoingRequest(.get, "http://127.0.0.1:9/", headers: [(name, value)]))
            }
        }
    }

    @Test func aCancelledRequestEndsAtOnce() async throws {
        let tally = await Tally()
        try await withServer(routes: { router in
            router.on(.get, "/wait") { _ in
                tally.begun += 1
                try? await pause(for: .seconds(60))
                return .text(200, "")
            }
        }) { server, port in
            try await withClient { client in
                let task = Task(executorPreference: EventLoop.shared) {
                    await failure(client, "http://127.0.0.1:\(port)/wait", .seconds(60))
                }
                try await eventually { await tally.begun == 1 }
                task.cancel()
                #expect(await task.value?.kind == .cancelled)
                try await eventually("its connection is closed") { await server.connectionCount == 0 }
            }
        }
    }

    @Test func stoppingEndsAllRequests() async throws {
        try await withServer(routes: { router in
            router.on(.get, "/wait") { _ in
                try? await pause(for: .seconds(60))
                return .text(200, "")
            }
        }) { _, port in
            let client = await HTTPClient(logger: .disabled)
            let url = "http://127.0.0.1:\(port)/wait"
            async let first = failure(client, url, .seconds(60))
            async let second = failure(client, url, .seconds(60))
            try await eventually { await client.requestsInFlight == 2 }
            await client.stop()
            #expect(await first?.kind == .stopped)
            #expect(await second?.kind == .stopped)
            #expect(await failure(client, url) == HTTPClientError(.stopped, wasNeverSent: true))
        }
    }
}
