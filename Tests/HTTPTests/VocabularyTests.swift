import HTTP
import ServiceRuntime
import Testing

@Suite struct RetryAfterTests {
    static let now = UnixMilliseconds(1_796_000_000_000)

    @Test(arguments: [
        ("0", Duration.zero),
        ("120", .seconds(120)),
        (" 7 ", .seconds(7)),
        // Apple's form: UNIX time in milliseconds.
        ("1796000002500", .milliseconds(2500)),
        ("1795999990000", .zero),
        ("", nil), ("-5", nil), ("1.5", nil), ("soon", nil), ("5 s", nil), ("99999999999999999999", nil),
        ("2026-11-30", nil), ("Mon", nil),
    ])
    func reads(_ value: String, _ expected: Duration?) {
        #expect(RetryAfter.parse(value, now: Self.now) == expected)
    }

    /// RFC 9110's own example: 784111777 is Sun, 06 Nov 1994 08:49:37 GMT in all three formats.
    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    ])
    func readsHTTPDates(_ date: String) {
        #expect(RetryAfter.parse(date, now: UnixMilliseconds(seconds: 784_111_770)) == .seconds(7))
        #expect(RetryAfter.parse(date, now: UnixMilliseconds(seconds: 784_111_800)) == .zero)
    }
}

@Suite struct PreferTests {
    @Test(arguments: [
        ("wait=10", 10), ("wait=0", 0), ("WAIT = 7", 7), ("respond-async, wait=5", 5), ("wait=\"8\"", 8),
        ("wait=5; x=1", 5), ("wait=3, wait=9", 3), ("foo=\"a,wait=9\", wait=2", 2),
        ("wait=2;foo=\",\",return=minimal", 2),
        ("wait", nil), ("wait=", nil), ("wait=-1", nil), ("wait=1.5", nil), ("wait=x, wait=3", nil), ("waiting=4", nil),
        ("", nil), ("return=minimal", nil), ("wait=99999999999999999999", nil),
    ])
    func readsWait(_ value: String, _ expected: Int?) { #expect(Prefer.wait(in: value) == expected) }
}

@Suite struct ContentTypeTests {
    @Test(arguments: [
        ("application/json", true), ("Application/JSON", true), ("application/json; charset=utf-8", true),
        ("application/json;charset=\"UTF-8\"", true), ("application/json; charset=latin1", false),
        ("text/json", false), ("application/jsonx", false), ("", false), (nil, false),
        ("application/json; profile=x", true),
    ])
    func matches(_ value: String?, _ expected: Bool) {
        #expect(ContentType.matches(value, "application/json") == expected)
    }

    @Test @LoopActor func aHandlerRefusesAnotherTypeWith415() {
        let right = IncomingRequest(.post, "/", headers: [("content-type", "application/json")])
        let wrong = IncomingRequest(.post, "/", headers: [("Content-Type", "text/plain")])
        #expect(Problem.unlessContentType("application/json", right) == nil)
        #expect(Problem.unlessContentType("application/json", wrong)?.status == 415)
    }
}

@Suite struct ProblemTests {
    @Test func isWrittenAsProblemJSON() throws {
        var problem = Problem(status: 422, reason: "wrong-app", title: "Wrong app.", detail: "It is \"another\".") {
            $0.member("clientAction", "keep")
        }
        problem.headers = [("Retry-After", "5")]
        let response = problem.response
        #expect(response.status == 422)
        #expect(response.headers.contains { $0 == ("Content-Type", "application/problem+json") })
        #expect(response.headers.contains { $0 == ("Retry-After", "5") })
        let json = try JSONView.parse(response.body)
        #expect(try json.string("type") == "urn:teller:problem:wrong-app")
        #expect(try json.string("reason") == "wrong-app")
        #expect(try json.int64("status") == 422)
        #expect(try json.string("detail") == "It is \"another\".")
        #expect(try json.string("clientAction") == "keep")
    }
}

@Suite @LoopActor struct RouterTests {
    private func router() -> Router {
        let router = Router()
        router.on(.get, "/shop/wallet") { _ in .text(200, "wallet") }
        router.on(.get, "/shop/purchases/{id}") { .text(200, "purchase \($0.pathParameters["id"] ?? "")") }
        router.on(.get, "/shop/purchases/latest") { _ in .text(200, "latest") }
        router.on(.post, "/shop/purchases/{id}/replay") { .text(200, "replay \($0.pathParameters["id"] ?? "")") }
        router.on(.delete, "/shop/wallet") { _ in .text(200, "gone") }
        return router
    }

    @Test(arguments: [
        ("GET", "/shop/wallet", 200, "wallet"), ("HEAD", "/shop/wallet", 200, "wallet"),
        ("DELETE", "/shop/wallet", 200, "gone"), ("GET", "/shop/%77allet", 200, "wallet"),
        ("GET", "/shop/purchases/0-abc", 200, "purchase 0-abc"), ("GET", "/shop/purchases/a%2Fb", 200, "purchase a/b"),
        ("GET", "/shop/purchases/a%20b", 200, "purchase a b"), ("GET", "/shop/purchases/latest", 200, "latest"),
        ("GET", "/shop/purchases/...", 200, "purchase ..."), ("GET", "/shop/purchases/a+b", 200, "purchase a+b"),
        ("POST", "/shop/purchases/7/replay", 200, "replay 7"), ("GET", "/", 404, ""), ("GET", "/shop", 404, ""),
        ("GET", "/shop/wallet/", 404, ""), ("GET", "//shop/wallet", 404, ""), ("GET", "/shop/purchases/", 404, ""),
        ("GET", "/Shop/wallet", 404, ""), ("GET", "/shop/purchases/a/b", 404, ""),
        ("POST", "/shop/wallet", 405, "DELETE"),
        ("get", "/shop/wallet", 405, "GET"), ("GET", "/shop/purchases/7/replay", 405, "POST"),
        ("GET", "shop/wallet", 400, ""), ("GET", "", 400, ""), ("GET", "*", 400, ""),
        ("GET", "/shop/../wallet", 400, ""),
        ("GET", "/shop/./wallet", 400, ""), ("GET", "/shop/%2e%2E/wallet", 400, ""),
        ("GET", "/shop/purchases/%00", 400, ""),
        ("GET", "/shop/purchases/%0A", 400, ""), ("GET", "/shop/purchases/%", 400, ""),
        ("GET", "/shop/purchases/%C3%28", 400, ""), ("GET", "/shop/purchases/%C0%AF", 400, ""),
    ])
    func finds(_ method: String, _ path: String, _ status: Int, _ part: String) async {
        let response = await router().handle(IncomingRequest(HTTPMethod(rawValue: method), path))
        #expect(response.status == status)
        let text = String(decoding: response.body, as: UTF8.self)
        if status == 405 {
            #expect(response.headers.contains { $0.0 == "Allow" && $0.1.contains(part) })
        } else {
            #expect(text.contains(part))
        }
    }

    @Test func aFallbackAnswersWhatNoRouteMatches() async {
        let router = router()
        router.otherwise { .text(200, "anything: \($0.path)") }
        let response = await router.handle(IncomingRequest(.get, "/whatever/else"))
        #expect(String(decoding: response.body, as: UTF8.self) == "anything: /whatever/else")
    }
}
