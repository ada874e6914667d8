import HTTP
import ServiceRuntime
import Synchronization
import TestSupport
import Testing

/// A configured proxy: plain requests with the whole URL, TLS through a tunnel that it cannot look into.
@Suite struct HTTPClientProxyTests {
    /// What a proxy was asked, line by line, and the first byte that went into a tunnel.
    final class Notes: Sendable {
        let lines = Mutex<[String]>([])
        let firstTunnelled = Mutex<UInt8?>(nil)
    }

    @Test(arguments: [
        "http://proxy.internal:3128", "http://10.0.0.1:80/", "https://proxy:443", "http://[::1]:8080", "HTTP://p:1",
        "http://user:password@proxy:3128",
    ])
    func proxyIsASchemeAHostAndAPort(url: String) { #expect(HTTPClient.Configuration.isProxy(url)) }

    @Test(arguments: [
        "", "nonsense", "proxy:3128", "http://", "http://proxy", "http://:3128", "http://proxy:99999", "http://proxy:x",
        "http://a b:80", "http://proxy:3128/path", "http://proxy:3128?q", "http://proxy:3128#f", "ftp://proxy:21",
        "socks5://proxy:1080", "//proxy:3128",
    ])
    func nothingElseIsAProxy(url: String) { #expect(!HTTPClient.Configuration.isProxy(url)) }

    /// Relays tunnels, and answers everything else itself.
    private static func proxy(_ notes: Notes, refusal: String? = nil) throws -> ScriptedServer {
        try ScriptedServer { client in
            let head = client.receive(until: "\r\n\r\n")
            guard let line = head.split(separator: "\r\n").first.map(String.init) else { return }
            notes.lines.withLock { $0.append(line) }
            guard line.hasPrefix("CONNECT ") else {
                client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfrom proxy")
                return
            }
            if let refusal {
                client.send("HTTP/1.1 \(refusal)\r\nContent-Length: 0\r\n\r\n")
                return
            }
            guard let port = Int(line.split(separator: " ")[1].split(separator: ":").last ?? ""),
                let origin = try? BlockingSocket(port: port)
            else { return }
            client.send("HTTP/1.1 200 Connection established\r\n\r\n")
            startThread { while let some = origin.receive(), client.send(some) {} }
            while let some = client.receive() {
                notes.firstTunnelled.withLock { $0 = $0 ?? some.first }
                guard origin.send(some) else { return }
            }
        }
    }

    private func send(_ url: String, through proxy: ScriptedServer, authority: String? = nil) async throws -> String {
        var configuration = HTTPClient.Configuration()
        configuration.proxy = "http://127.0.0.1:\(proxy.port)"
        configuration.certificateAuthorityFile = authority
        return try await withClient(configuration) { client in
            let answer = try await client.send(OutgoingRequest(.get, url, deadline: .seconds(20)))
            return "\(answer.status) " + String(decoding: answer.body, as: UTF8.self)
        }
    }

    @Test func aPlainRequestIsSentWithItsWholeURL() async throws {
        let notes = Notes()
        let proxy = try Self.proxy(notes)
        defer { proxy.stop() }
        // The name exists nowhere: it is the proxy that would look it up.
        let answer = try await send("http://store.invalid/a?b=c", through: proxy)
        #expect(answer == "200 from proxy")
        #expect(notes.lines.withLock { $0 } == ["GET http://store.invalid/a?b=c HTTP/1.1"])
    }

    @Test func tlsGoesThroughATunnelFromEndToEnd() async throws {
        let server = try HTTPClientTLSTests.TLSServer(certificateFor: "IP:127.0.0.1")
        defer { server.stop() }
        try await server.waitUntilItListens()
        let notes = Notes()
        let proxy = try Self.proxy(notes)
        defer { proxy.stop() }
        let url = "https://127.0.0.1:\(server.port)/secret"
        #expect(try await send(url, through: proxy, authority: server.authority).hasPrefix("200 "))
        #expect(notes.lines.withLock { $0 } == ["CONNECT 127.0.0.1:\(server.port) HTTP/1.1"])
        // A TLS record of the handshake (RFC 8446 §5.1).
        #expect(notes.firstTunnelled.withLock { $0 } == 22)
        // The proxy does not stand in for the server's certificate.
        await #expect(throws: HTTPClientError.self) { _ = try await send(url, through: proxy) }
    }

    @Test(arguments: ["407 Proxy Authentication Required", "403 Forbidden", "502 Bad Gateway"])
    func aRefusedTunnelIsNoAnswerOfTheStore(refusal: String) async throws {
        let proxy = try Self.proxy(Notes(), refusal: refusal)
        defer { proxy.stop() }
        let error = await #expect(throws: HTTPClientError.self) {
            _ = try await send("https://store.invalid/x", through: proxy)
        }
        #expect(error?.isRetryable == true)
    }
}
