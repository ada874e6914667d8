import Glibc
import ServiceRuntime

/// Something that accepts connections on 127.0.0.1 and does with them what a test says: a scripted Redis, or a proxy that
/// can swallow everything.
@LoopActor
final class FakeServer {
    let port: Int
    private let listener: Int32
    private var watch: IOWatch?
    /// By a number that is never used again, as the kernel does with descriptors.
    private var peers: [Int: (fd: Int32, watch: IOWatch)] = [:]
    private(set) var acceptedCount = 0
    /// Gets what a client sent; the answer is written back.
    private let answer: @LoopActor (Int, [UInt8]) -> [UInt8]

    init(_ answer: @escaping @LoopActor (Int, [UInt8]) -> [UInt8]) throws {
        self.answer = answer
        let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        listener = fd
        var address = loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(fd, $0, length) | listen(fd, 64) | getsockname(fd, $0, &length)
            }
        }
        precondition(status == 0, "no port for a fake server")
        port = Int(UInt16(bigEndian: address.sin_port))
        watch = try EventLoop.shared.watch(fd: listener, .readable) { [weak self] _ in self?.accept() }
    }

    /// Says PONG to PING, and `reply` to everything else.
    static func scripted(_ reply: String) throws -> FakeServer {
        try FakeServer { _, bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            if text.contains("$4\r\nPING") { return Array("+PONG\r\n".utf8) }
            return Array("\(reply)\r\n".utf8)
        }
    }

    func stop() {
        watch?.stop()
        close(listener)
        for peer in peers.keys { drop(peer) }
    }

    /// Ends one connection.
    func drop(_ peer: Int) {
        guard let (fd, watch) = peers.removeValue(forKey: peer) else { return }
        watch.stop()
        close(fd)
    }

    /// Sends bytes nobody asked for.
    func push(_ bytes: [UInt8], to peer: Int) {
        guard !bytes.isEmpty, let fd = peers[peer]?.fd else { return }
        _ = send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    private func accept() {
        let fd = Glibc.accept(listener, nil, nil)
        guard fd >= 0 else { return }
        acceptedCount += 1
        let peer = acceptedCount
        let watch = try? EventLoop.shared.watch(fd: fd, .readable) { [weak self] _ in self?.read(peer) }
        if let watch { peers[peer] = (fd, watch) }
    }

    private func read(_ peer: Int) {
        guard let fd = peers[peer]?.fd else { return }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(fd, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { return drop(peer) }
        push(answer(peer, Array(bytes[..<count])), to: peer)
    }
}

/// Forwards to a server, or swallows: connections that existed while it swallowed stay dead for ever, as behind a
/// firewall that forgot them.
@LoopActor
final class BlackHoleProxy {
    private(set) var isSwallowing = false
    private var dead: Set<Int> = []
    private var upstream: [Int: (fd: Int32, watch: IOWatch)] = [:]
    private var front: FakeServer?
    private let target: Int

    init(to target: Int) throws {
        self.target = target
        front = try FakeServer { [weak self] peer, bytes in
            self?.forward(bytes, of: peer)
            return []
        }
    }

    var port: Int { front?.port ?? 0 }

    func swallow() {
        isSwallowing = true
        dead.formUnion(upstream.keys)
    }

    func forward() { isSwallowing = false }

    func stop() {
        for (_, connection) in upstream {
            connection.watch.stop()
            close(connection.fd)
        }
        upstream = [:]
        front?.stop()
    }

    private func forward(_ bytes: [UInt8], of peer: Int) {
        if isSwallowing, upstream[peer] == nil { dead.insert(peer) }
        guard !dead.contains(peer) else { return }
        if upstream[peer] == nil { connectUpstream(peer) }
        if let fd = upstream[peer]?.fd { _ = send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
    }

    private func connectUpstream(_ peer: Int) {
        let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = loopback(port: target)
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { return }
        let watch = try? EventLoop.shared.watch(fd: fd, .readable) { [weak self] _ in self?.backward(from: fd, to: peer)
        }
        if let watch { upstream[peer] = (fd, watch) }
    }

    private func backward(from fd: Int32, to peer: Int) {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(fd, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        guard count > 0 else {
            upstream.removeValue(forKey: peer)?.watch.stop()
            close(fd)
            return
        }
        if !dead.contains(peer) { front?.push(Array(bytes[..<count]), to: peer) }
    }
}

private func loopback(port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
}
