import Foundation
package import Glibc
package import ServiceRuntime

/// A private redis-server with the settings that Teller demands, to be killed, frozen and started again.
@LoopActor
package final class RedisProcess {
    /// On 127.0.0.1; the same over restarts.
    package var port: Int { reserved.number }
    private let reserved: FreePort
    private let directory: String
    private var child: ChildProcess?

    /// Prepares a server whose data are in `directory`, which is made.
    package init(directory: String) throws {
        self.directory = directory
        reserved = try FreePort()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let lines = [
            "bind 127.0.0.1", "port \(reserved.number)", "dir \(directory)", "logfile \(directory)/redis.log",
            "daemonize no",
            "save \"\"", "appendonly yes", "appendfsync always", "no-appendfsync-on-rewrite no",
            "maxmemory-policy noeviction",
        ]
        try (lines.joined(separator: "\n") + "\n").write(
            toFile: directory + "/redis.conf", atomically: true, encoding: .utf8)
    }

    /// Its process id while it runs.
    package var pid: pid_t? { child?.pid }

    /// Resident memory in bytes.
    package var residentBytes: Int? { child?.residentBytes }

    /// Starts it, on the data of before; returns as soon as it answers commands.
    package func start() async throws {
        let child = try ChildProcess(["redis-server", directory + "/redis.conf"], log: directory + "/output.log")
        self.child = child
        let begin = MonotonicInstant.now
        while !FreePort.answersPing(port) {
            guard child.isRunning, begin.elapsed < .seconds(60) else {
                throw LabError.stage("redis-server does not start, see \(directory)/redis.log")
            }
            try await pause(for: .milliseconds(2))
        }
    }

    /// Ends it at once, as a power cut would.
    package func kill() async {
        await child?.kill()
        child = nil
    }

    /// Ends it in good order.
    package func shutDown() async {
        child?.send(signal: SIGTERM)
        if await child?.waitForEnd(within: .seconds(20)) != true { await child?.kill() }
        child = nil
    }

    /// Stops it in its tracks: sockets stay open, nothing answers.
    package func freeze() { child?.send(signal: SIGSTOP) }

    /// Lets it go on.
    package func thaw() { child?.send(signal: SIGCONT) }
}

/// A port of the loopback address that nobody else takes while this lives, also while the process it is for is dead.
///
/// Its own socket is bound to it and never listens; the kernel lets a listener in beside it when both have
/// `SO_REUSEADDR`, as redis-server's and Teller's have (socket(7)). The next harness looks without that option and so
/// finds it taken.
package final class FreePort: Sendable {
    /// Its number.
    package let number: Int
    private let descriptor: Int32

    /// Takes one below the range from which the kernel takes ports for outgoing connections (ip(7), ip_local_port_range):
    /// a process that is killed and started again must find its port free.
    package init() throws(LabError) {
        for _ in 0..<1000 {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            let number = Int.random(in: 12_000..<32_000)
            if descriptor >= 0, Self.withLoopback(port: number, { bind(descriptor, $0, $1) }) == 0 {
                for option in [SO_REUSEADDR, SO_REUSEPORT] {
                    var on: Int32 = 1
                    setsockopt(descriptor, SOL_SOCKET, option, &on, socklen_t(MemoryLayout<Int32>.size))
                }
                self.descriptor = descriptor
                self.number = number
                return
            }
            close(descriptor)
        }
        throw .stage("no free port: \(String(cString: strerror(errno)))")
    }

    deinit { close(descriptor) }

    static func port(of fd: Int32) -> Int? {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(fd, $0, &length) }
        }
        return status == 0 ? Int(UInt16(bigEndian: address.sin_port)) : nil
    }

    static func withLoopback(port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
    }

    /// Whether a Redis that has loaded its data listens there; gives up after 100 ms.
    package static func answersPing(_ port: Int) -> Bool {
        let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard fd >= 0 else { return false }
        defer { close(fd) }
        var patience = timeval(tv_sec: 0, tv_usec: 100_000)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        guard withLoopback(port: port, { connect(fd, $0, $1) }) == 0,
            send(fd, "PING\r\n", 6, Int32(MSG_NOSIGNAL)) == 6
        else { return false }
        var answer = [UInt8](repeating: 0, count: 16)
        guard recv(fd, &answer, answer.count, 0) >= 5 else { return false }
        // A server that asks for a password, or that forbids PING, is up, too; one that is LOADING is not.
        return answer.starts(with: Array("+PONG".utf8)) || answer.starts(with: Array("-NO".utf8))
    }
}
