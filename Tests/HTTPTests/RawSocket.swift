import Glibc
import HTTP
import ServiceRuntime

/// A blocking TCP connection for threads that may block; see ``RawSocket``.
final class BlockingSocket: @unchecked Sendable {
    // Invariant: one call at a time, each waited for by whoever made it.
    private var descriptor: Int32

    /// Connects to 127.0.0.1.
    init(port: Int) throws {
        precondition(
            !EventLoop.shared.isCurrent, "a blocking socket on the loop's thread would block the server as well")
        descriptor = socket(AF_INET, streamClosedOnExec, 0)
        var limit = timeval(tv_sec: 5, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = loopback(port: port)
        let failed = withUnsafeBytes(of: &address) { bytes in
            bytes.baseAddress.map {
                connect(descriptor, $0.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            } ?? -1
        }
        guard failed == 0 else { throw RawSocket.Failure(call: "connect") }
    }

    /// Takes over an accepted connection.
    init(accepted descriptor: Int32) {
        self.descriptor = descriptor
        var limit = timeval(tv_sec: 5, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close() }

    func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Ends our side; the other one can still answer.
    func finish() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Ends the connection with a TCP reset.
    func reset() {
        var lingering = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    @discardableResult
    func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// - Returns: False when the other side no longer takes bytes.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Reads once: nil at the end of the stream, on a reset and after five seconds of silence.
    func receive() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    /// Reads to the end of the stream.
    func receiveAll() -> String {
        var all: [UInt8] = []
        while let some = receive() { all += some }
        return String(decoding: all, as: UTF8.self)
    }

    /// Reads until what came in contains `text` `count` times; what came in either way.
    func receive(until text: String, times count: Int = 1) -> String {
        var all = ""
        while all.split(separator: text, omittingEmptySubsequences: false).count <= count, let some = receive() {
            all += String(decoding: some, as: UTF8.self)
        }
        return all
    }

    /// Whether the other side closed the connection (read to its end within the five seconds).
    var isClosedByPeer: Bool {
        var byte: UInt8 = 0
        while true {
            let count = recv(descriptor, &byte, 1, 0)
            if count == 0 { return true }
            if count < 0 { return errno != EAGAIN && errno != EWOULDBLOCK }
        }
    }
}

/// A TCP connection that sends exactly the bytes a test wants, right or wrong.
///
/// A test's task goes on on the loop's thread after it awaited something there, and the server under test needs that
/// thread, so every blocking call has a thread of its own. Each is bounded by five seconds: a server that hangs fails the
/// test instead of stopping it.
final class RawSocket: Sendable {
    struct Failure: Error { let call: String }

    private let socket: BlockingSocket

    init(port: Int) async throws { socket = try await blocking { try BlockingSocket(port: port) }.get() }

    @discardableResult
    func send(_ text: String) async -> Bool { await blocking { [socket] in socket.send(text) } }

    func receiveAll() async -> String { await blocking { [socket] in socket.receiveAll() } }

    func receive(until text: String, times count: Int = 1) async -> String {
        await blocking { [socket] in socket.receive(until: text, times: count) }
    }

    var isClosedByPeer: Bool { get async { await blocking { [socket] in socket.isClosedByPeer } } }

    func close() { socket.close() }

    /// Sends and closes before the loop, on whose thread this is called, can look: the server finds both at once.
    @LoopActor func sendAndClose(_ text: String) {
        socket.send(text)
        socket.close()
    }

    /// Sends and ends its side before the loop can look.
    @LoopActor func sendAndFinish(_ text: String) {
        socket.send(text)
        socket.finish()
    }

    func reset() { socket.reset() }
}

func makeSockets(_ count: Int, port: Int) async throws -> [RawSocket] {
    var sockets: [RawSocket] = []
    for _ in 0..<count { sockets.append(try await RawSocket(port: port)) }
    return sockets
}

private func blocking<Answer: Sendable>(_ body: @escaping @Sendable () -> Answer) async -> Answer {
    await withCheckedContinuation { continuation in startThread { continuation.resume(returning: body()) } }
}

private func blocking<Answer: Sendable>(
    _ body: @escaping @Sendable () throws -> Answer
) async -> Result<Answer, any Error> {
    await withCheckedContinuation { continuation in
        startThread { continuation.resume(returning: Result { try body() }) }
    }
}

/// `SOCK_STREAM | SOCK_CLOEXEC`: a process that another test starts must not hold our connections open.
private let streamClosedOnExec: Int32 = 1 | 0x80000

/// Keeps a scripted server's thread busy.
func pauseThread(milliseconds: UInt32) { usleep(milliseconds * 1000) }

private func loopback(port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(UInt16(port).bigEndian)
    address.sin_addr.s_addr = in_addr_t(UInt32(0x7F00_0001).bigEndian)
    return address
}

/// A server of raw bytes: each connection is handed to `serve` on a thread of its own.
final class ScriptedServer: Sendable {
    let port: Int
    private let descriptor: Int32

    init(_ serve: @escaping @Sendable (BlockingSocket) -> Void) throws {
        let listening = socket(AF_INET, streamClosedOnExec, 0)
        var address = loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let failed = withUnsafeMutableBytes(of: &address) { bytes -> Int32 in
            guard let base = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return -1 }
            guard bind(listening, base, length) == 0, listen(listening, 64) == 0 else { return -1 }
            return getsockname(listening, base, &length)
        }
        guard failed == 0 else { throw RawSocket.Failure(call: "listen") }
        port = Int(UInt16(bigEndian: address.sin_port))
        descriptor = listening
        startThread {
            while true {
                let accepted = accept(listening, nil, nil)
                guard accepted >= 0 else { return }
                _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
                startThread { serve(BlockingSocket(accepted: accepted)) }
            }
        }
    }

    /// Ends accepting.
    func stop() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }
}

func startThread(_ body: @escaping @Sendable () -> Void) {
    var thread = pthread_t()
    pthread_create(
        &thread, nil,
        { owner in
            if let owner { Unmanaged<ThreadBody>.fromOpaque(owner).takeRetainedValue().run() }
            return nil
        }, Unmanaged.passRetained(ThreadBody(body)).toOpaque())
    pthread_detach(thread)
}

private final class ThreadBody {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}
