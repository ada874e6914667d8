import Glibc
import Lab

/// A private `redis-server` for one test suite: its own directory, a free port, the settings Teller demands.
///
/// A shell watches over the server through a socket that only this process holds. When the test process ends in whatever
/// way, the socket closes and the shell kills the server and removes the directory, so a crashed test leaves nothing
/// behind. (PR_SET_PDEATHSIG would follow the death of the *thread* that started the server, and pool threads come and go.)
public actor RedisServer {
    /// The TCP port on 127.0.0.1; stays the same over restarts.
    public nonisolated var port: Int { reserved.number }
    private let reserved: FreePort
    /// The temporary directory that holds the configuration, the append-only file and the log.
    public nonisolated let directory: String
    /// The path of the unix socket the server listens on besides TCP.
    public nonisolated var socketPath: String { directory + "/redis.sock" }
    /// `redis://127.0.0.1:<port>`.
    public nonisolated var url: String { "redis://127.0.0.1:\(port)" }

    private let extraLines: [String]
    private var running: Running?

    private struct Running {
        let shell: pid_t
        let server: pid_t
        /// Closing it tells the shell to kill the server.
        let lifeline: Int32
    }

    /// Something about starting or stopping the server went wrong.
    public struct Failure: Error, CustomStringConvertible {
        /// What, in words.
        public let description: String
    }

    /// Starts a server and returns when it answers.
    ///
    /// `extraLines` are appended to its configuration, so they override the
    /// defaults: `appendonly yes`, `appendfsync always`, `maxmemory-policy noeviction`.
    public init(_ extraLines: [String] = []) async throws {
        var template = Array("/tmp/teller-test-redis-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: errno \(errno)") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        reserved = try FreePort()
        self.extraLines = extraLines
        try await start()
    }

    /// Runs `body` with a fresh server and stops the server afterwards, also when `body` throws.
    public static func running<Answer: Sendable>(
        _ extraLines: [String] = [], isolation: isolated (any Actor)? = #isolation,
        _ body: (RedisServer) async throws -> Answer
    ) async throws -> Answer {
        let server = try await RedisServer(extraLines)
        return try await TestSupport.running {
            try await body(server)
        } stop: {
            await server.stop()
        }
    }

    /// Starts the server again after ``kill()`` or ``shutDown()``, on the same directory and port.
    ///
    /// With `waitUntilReady: false` it returns as soon as the process exists (it may still be loading its data).
    public func start(waitUntilReady: Bool = true) async throws {
        precondition(running == nil, "the server runs already")
        try writeConfiguration()
        let (toShell, lifeline) = try Self.channel()
        let (fromShell, shellOutput) = try Self.channel()
        // $1: redis-server's configuration, $2: the directory to remove when this process is gone without having said goodbye.
        let script = """
            trap '' INT TERM HUP
            redis-server "$1" >/dev/null 2>&1 & server=$!
            echo $server
            read -r goodbye
            kill -KILL $server 2>/dev/null; wait $server 2>/dev/null
            [ "$goodbye" = keep ] || rm -rf "$2"
            """
        let shell = try Spawn.start(
            ["/bin/sh", "-c", script, "sh", directory + "/redis.conf", directory], input: toShell, output: shellOutput,
            errors: 2)
        close(toShell)
        close(shellOutput)
        defer { close(fromShell) }
        guard let server = Self.readNumber(fromShell) else { throw Failure(description: "the shell did not start") }
        running = Running(shell: shell, server: server, lifeline: lifeline)
        guard waitUntilReady else { return }
        try await self.waitUntilReady()
    }

    /// Kills the server at once (SIGKILL), as a power cut would; the data on disk stays.
    public func kill() async {
        guard let running else { return }
        self.running = nil
        _ = Glibc.write(running.lifeline, "keep\n", 5)
        close(running.lifeline)
        await Self.reap(running.shell)
    }

    /// Stops the server in good order (SIGTERM) and waits for its end; the data on disk stays.
    public func shutDown() async {
        guard let running else { return }
        Glibc.kill(running.server, SIGTERM)
        let end = ContinuousClock.now + .seconds(5)
        while ContinuousClock.now < end, Glibc.kill(running.server, 0) == 0, !Self.isZombie(running.server) {
            await Self.breath()
        }
        await kill()
    }

    /// ``kill()`` and start again.
    public func restart() async throws {
        await kill()
        try await start()
    }

    /// Freezes the server (SIGSTOP): its sockets stay open and the kernel still accepts connections, but nothing answers.
    public func freeze() {
        if let running { Glibc.kill(running.server, SIGSTOP) }
    }

    /// Lets a frozen server go on.
    public func thaw() {
        if let running { Glibc.kill(running.server, SIGCONT) }
    }

    /// The process id while it runs.
    public var processID: Int32? { running?.server }

    /// Kills the server and removes its directory.
    public func stop() async {
        await kill()
        let shell = try? Spawn.start(["/bin/rm", "-rf", directory], input: 0, output: 1, errors: 2)
        if let shell { await Self.reap(shell) }
    }

    // MARK: - Parts

    private func writeConfiguration() throws {
        let lines =
            [
                "bind 127.0.0.1", "port \(port)", "dir \(directory)", "unixsocket \(socketPath)", "logfile redis.log",
                "daemonize no", "save \"\"", "appendonly yes", "appendfsync always", "no-appendfsync-on-rewrite no",
                "maxmemory-policy noeviction",
            ] + extraLines
        let text = lines.joined(separator: "\n") + "\n"
        guard let file = fopen(directory + "/redis.conf", "w") else {
            throw Failure(description: "redis.conf: errno \(errno)")
        }
        fputs(text, file)
        fclose(file)
    }

    private func waitUntilReady() async throws {
        let end = ContinuousClock.now + .seconds(15)
        while ContinuousClock.now < end {
            if FreePort.answersPing(port) { return }
            if let running, Glibc.kill(running.server, 0) != 0 || Self.isZombie(running.server) {
                throw Failure(description: "redis-server ended while starting: \(log().suffix(400))")
            }
            await Self.breath()
        }
        throw Failure(description: "redis-server did not answer within 15 s: \(log().suffix(400))")
    }

    /// The server's log so far.
    public func log() -> String {
        guard let file = fopen(directory + "/redis.log", "r") else { return "(no log)" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Two connected file descriptors.
    ///
    /// CLOEXEC from birth (a plain pipe is not): another test's child started at the same
    /// moment must not hold our lifeline open.
    private static func channel() throws -> (one: Int32, other: Int32) {
        var ends: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw Failure(description: "socketpair: errno \(errno)") }
        return (ends[0], ends[1])
    }

    private static func readNumber(_ fd: Int32) -> Int32? {
        var digits: [UInt8] = []
        var byte: UInt8 = 0
        while read(fd, &byte, 1) == 1, byte != UInt8(ascii: "\n") { digits.append(byte) }
        return Int32(String(decoding: digits, as: UTF8.self))
    }

    private static func reap(_ child: pid_t) async {
        var status: Int32 = 0
        while waitpid(child, &status, WNOHANG) == 0 { await breath() }
    }

    private static func isZombie(_ process: pid_t) -> Bool {
        guard let file = fopen("/proc/\(process)/stat", "r") else { return true }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self).contains(") Z ")
    }

    private static func breath() async {
        // Polling the state of another process: there is nothing to wait on, so a short pause between two looks.
        try? await Task.sleep(for: .milliseconds(5))
    }
}
