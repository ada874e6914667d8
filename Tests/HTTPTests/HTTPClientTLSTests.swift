import Foundation
import Glibc
import HTTP
import ServiceRuntime
import TestSupport
import Testing

/// Against `openssl s_server`, with certificates that `openssl` makes for the occasion.
@Suite struct HTTPClientTLSTests {
    /// A certificate authority, a certificate of it, and a server using that.
    struct TLSServer {
        let directory: String
        let port: Int
        private let process: Process
        private let input = Pipe()
        private let output = Pipe()
        /// Where to write what is sent to the client, in a server without `-www`.
        var sending: FileHandle { input.fileHandleForWriting }
        /// Where what the client sent is read.
        var receiving: FileHandle { output.fileHandleForReading }

        var authority: String { directory + "/ca.pem" }

        /// - Parameters:
        ///   - name: As in `subjectAltName`.
        ///   - behaviour: Options of `s_server`; without `-www` it copies between the connection and its own ends.
        /// - Throws: When `openssl` cannot make the certificates.
        init(certificateFor name: String, _ behaviour: String = "-www") throws {
            var template = Array("/tmp/teller-test-tls-XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw RawSocket.Failure(call: "mkdtemp") }
            directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let certificates = """
                set -e; cd \(directory)
                openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test-ca \
                  -keyout ca.key -out ca.pem
                openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout s.key -out s.csr
                printf 'subjectAltName=\(name)' > ext
                openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out s.pem
                """
            guard try Self.run("/bin/sh", ["-c", certificates]).waits() == 0 else {
                throw RawSocket.Failure(call: "openssl")
            }
            // The port of a listener that is closed again; nobody else asks for ports this quickly.
            let probe = try ScriptedServer { _ in }
            probe.stop()
            port = probe.port
            // The shell kills the server when its key is gone (`stop`) or this process is, however that happened.
            let script = """
                cd \(directory)
                exec 3<&0
                openssl s_server -accept 127.0.0.1:\(port) -cert s.pem -key s.key \(behaviour) -quiet <&3 & server=$!
                while [ -e s.key ] && kill -0 \(getpid()); do sleep 0.1; done
                kill -9 $server
                """
            process = try Self.run("/bin/sh", ["-c", script], input: input, output: output)
        }

        func stop() {
            try? FileManager.default.removeItem(atPath: directory)
            process.waitUntilExit()
        }

        func waitUntilItListens() async throws {
            try await eventually("s_server listens") { (try? await RawSocket(port: port)) != nil }
        }

        private static func run(
            _ program: String, _ arguments: [String], input: Any = FileHandle.nullDevice,
            output: Any = FileHandle.nullDevice
        ) throws -> Process {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: program)
            process.arguments = arguments
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            process.standardInput = input
            try process.run()
            return process
        }
    }

    private func get(_ server: TLSServer, authority: String?) async throws -> Result<Int, HTTPClientError> {
        var configuration = HTTPClient.Configuration()
        configuration.certificateAuthorityFile = authority
        return try await withClient(configuration) { client in
            do throws(HTTPClientError) {
                let answer = try await client.send(OutgoingRequest(.get, "https://127.0.0.1:\(server.port)/"))
                return .success(answer.status)
            } catch {
                return .failure(error)
            }
        }
    }

    @Test func anUnknownAuthorityIsRefusedAndAnAddedOneAccepted() async throws {
        let server = try TLSServer(certificateFor: "IP:127.0.0.1")
        defer { server.stop() }
        try await server.waitUntilItListens()
        let refused = HTTPClientError(.tls, wasNeverSent: true)
        #expect(try await get(server, authority: nil) == .failure(refused))
        #expect(!refused.isRetryable)
        #expect(try await get(server, authority: server.authority) == .success(200))
    }

    @Test func anotherNameInTheCertificateIsRefused() async throws {
        let server = try TLSServer(certificateFor: "DNS:elsewhere.example")
        defer { server.stop() }
        try await server.waitUntilItListens()
        let refused = HTTPClientError(.tls, wasNeverSent: true)
        #expect(try await get(server, authority: server.authority) == .failure(refused))
    }

    @Test func aServerWithoutTLSIsRefused() async throws {
        let server = try ScriptedServer { socket in
            _ = socket.receive()
            socket.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        }
        defer { server.stop() }
        try await withClient { client in
            await #expect(throws: HTTPClientError(.tls, wasNeverSent: true)) {
                _ = try await client.send(OutgoingRequest(.get, "https://127.0.0.1:\(server.port)/"))
            }
        }
    }
}

extension Process {
    /// Waits for the end and gives the exit status.
    fileprivate func waits() -> Int32 {
        waitUntilExit()
        return terminationStatus
    }
}
