import Foundation
import HTTP
import ServiceRuntime
import Synchronization
import TestSupport
import Testing

/// The client and HTTP/2 over real TLS: `openssl s_server` with ALPN, and behind it the few frames of RFC 9113 that a
/// server needs in order to answer.
@Suite struct HTTP2Tests {
    /// Answers every request of one connection with 200 and the number of its stream.
    final class Responder: Sendable {
        private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        private let sending: FileHandle
        /// Requests seen so far, and whether the connection began as HTTP/2 does.
        let seen = Mutex((requests: 0, begins: false))

        init(_ server: HTTPClientTLSTests.TLSServer) {
            sending = server.sending
            let receiving = server.receiving
            startThread { self.serve(receiving) }
        }

        private func serve(_ receiving: FileHandle) {
            var bytes: [UInt8] = []
            func read(_ count: Int) -> [UInt8]? {
                while bytes.count < count {
                    let some = receiving.availableData
                    guard !some.isEmpty else { return nil }
                    bytes += some
                }
                defer { bytes.removeFirst(count) }
                return Array(bytes.prefix(count))
            }
            guard read(Self.preface.count) == Self.preface else { return }
            seen.withLock { $0.begins = true }
            send(type: 4, flags: 0, stream: 0)
            while let head = read(9) {
                let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
                let stream = head[5...].reduce(0) { $0 << 8 | Int($1) }
                guard read(length) != nil else { return }
                switch (head[3], head[4]) {
                // SETTINGS that is no acknowledgement.
                case (4, 0): send(type: 4, flags: 1, stream: 0)
                // HEADERS or DATA with END_STREAM: the request is complete.
                case (0...1, let flags) where flags & 1 == 1: answer(stream)
                default: break
                }
            }
        }

        private func answer(_ stream: Int) {
            seen.withLock { $0.requests += 1 }
            // ":status: 200" is entry 8 of HPACK's static table (RFC 7541, appendix A).
            send(type: 1, flags: 4, stream: stream, [0x88])
            send(type: 0, flags: 1, stream: stream, Array("stream \(stream)".utf8))
        }

        private func send(type: UInt8, flags: UInt8, stream: Int, _ payload: [UInt8] = []) {
            let head = [0, 0, UInt8(payload.count), type, flags] + [24, 16, 8, 0].map { UInt8(stream >> $0 & 0xFF) }
            // A client that has gone is noticed by the test.
            try? sending.write(contentsOf: Data(head + payload))
        }
    }

    private func ask(_ client: HTTPClient, _ server: HTTPClientTLSTests.TLSServer, _ body: String?) async throws
        -> String
    {
        let request = OutgoingRequest(
            body == nil ? .get : .post, "https://127.0.0.1:\(server.port)/x", body: body.map { Array($0.utf8) })
        let answer = try await client.send(request)
        return "\(answer.status) " + String(decoding: answer.body, as: UTF8.self)
    }

    @Test func requestsShareOneConnection() async throws {
        let server = try HTTPClientTLSTests.TLSServer(certificateFor: "IP:127.0.0.1", "-alpn h2")
        defer { server.stop() }
        let responder = Responder(server)
        var configuration = HTTPClient.Configuration()
        configuration.certificateAuthorityFile = server.authority
        try await withClient(configuration) { client in
            // Not by connecting: s_server has one connection at a time, so a second one would wait for ever.
            try await eventually("the first answer") {
                (try? await self.ask(client, server, nil)) == "200 stream 1"
            }
            let answers = try await withThrowingTaskGroup(of: String.self) { group in
                for number in 0..<20 {
                    group.addTask { try await self.ask(client, server, number.isMultiple(of: 2) ? nil : "a body") }
                }
                return try await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            #expect(answers == Set((1...20).map { "200 stream \(2 * $0 + 1)" }))
        }
        #expect(responder.seen.withLock { $0 } == (requests: 21, begins: true))
    }
}
