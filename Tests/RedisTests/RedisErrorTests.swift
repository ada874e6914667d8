import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct RedisErrorTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let line: String
        let kind: RedisError.Kind
        let retryable: Bool
        var testDescription: String { line }
    }

    static let table = [
        Row(line: "READONLY You can't write against a read only replica.", kind: .readOnly, retryable: true),
        Row(line: "LOADING Redis is loading the dataset in memory", kind: .loading, retryable: true),
        Row(line: "MISCONF Errors writing to the AOF file", kind: .misconf, retryable: true),
        Row(line: "OOM command not allowed when used memory > 'maxmemory'.", kind: .outOfMemory, retryable: true),
        Row(line: "NOREPLICAS Not enough good replicas to write.", kind: .noReplicas, retryable: true),
        Row(line: "NOSCRIPT No matching script. Please use EVAL.", kind: .noScript, retryable: true),
        Row(line: "BUSY Redis is busy running a script.", kind: .busy, retryable: true),
        Row(line: "NOAUTH Authentication required.", kind: .noAuth, retryable: false),
        Row(line: "NOPERM this user has no permissions", kind: .noPermission, retryable: false),
        Row(
            line: "ERR The user executing the script can't run this command or subcommand", kind: .noPermission,
            retryable: false),
        Row(line: "WRONGPASS invalid username-password pair", kind: .wrongPassword, retryable: false),
        Row(line: "MOVED 3999 127.0.0.1:6381", kind: .moved(slot: 3999, address: "127.0.0.1:6381"), retryable: true),
        Row(line: "ASK 12 [::1]:6381", kind: .ask(slot: 12, address: "[::1]:6381"), retryable: true),
        Row(line: "MOVED nonsense", kind: .protocolError, retryable: false),
        Row(line: "TRYAGAIN Multiple keys request during rehashing of slot", kind: .tryAgain, retryable: true),
        Row(line: "CROSSSLOT Keys in request don't hash to the same slot", kind: .crossSlot, retryable: false),
        Row(line: "CLUSTERDOWN Hash slot not served", kind: .clusterDown, retryable: true),
        Row(line: "MASTERDOWN Link with MASTER is down", kind: .masterDown, retryable: true),
        Row(line: "UNBLOCKED force unblock from blocking operation", kind: .unblocked, retryable: true),
        Row(line: "WRONGTYPE Operation against a key", kind: .wrongType, retryable: false),
        Row(line: "ERR something else", kind: .other(code: "ERR"), retryable: false),
        Row(line: "", kind: .other(code: "ERR"), retryable: false),
    ]

    @Test(arguments: table) @LoopActor func everyErrorLineHasItsClass(_ row: Row) async throws {
        let server = try FakeServer.scripted("-" + row.line)
        defer { server.stop() }
        try await withConnection("redis://127.0.0.1:\(server.port)") { redis in
            let error = await #expect(throws: RedisError.self) { try await redis.send(["GET", "k"]) }
            #expect(error?.kind == row.kind)
            #expect(error?.isRetryable == row.retryable)
            #expect(error?.message == row.line)
            // A cluster redirection that cannot be read is the one reply that proves nothing.
            #expect(error?.mayHaveBeenApplied == (row.kind == .protocolError))
        }
    }

    @Test(arguments: ["-READONLY x", "-MASTERDOWN x", "-LOADING x"]) @LoopActor
    func aServerOfNoUseIsLeft(_ line: String) async throws {
        let server = try FakeServer.scripted(line)
        defer { server.stop() }
        try await withConnection("redis://127.0.0.1:\(server.port)") { redis in
            let before = server.acceptedCount
            await #expect(throws: RedisError.self) { try await redis.send(["SET", "k", "v"]) }
            try await eventually { server.acceptedCount > before && redis.isConnected }
        }
    }

    @Test @LoopActor func argumentsAreNotInTheText() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let error = await #expect(throws: RedisError.self) { try await redis.send(["NOSUCH", "hunter2"]) }
                #expect(error?.kind == .other(code: "ERR"))
                #expect(error.map { "\($0)".contains("hunter2") } == false)
            }
        }
    }

    @Test @LoopActor func aScriptThatFailedOnItsWayMayHaveWritten() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let script = RedisScript(
                    name: "half", text: "redis.call('INCR', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')")
                let error = await #expect(throws: RedisError.self) {
                    try await redis.evaluate(script, keys: ["n"], arguments: [])
                }
                #expect(error?.kind == .wrongType)
                #expect(error?.mayHaveBeenApplied == true)
                let written = try await redis.send(["GET", "n"]).int
                #expect(written == 1)
            }
        }
    }

    @Test(arguments: ["!garbage", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1"]) @LoopActor
    func whatIsNotTheProtocolEndsTheConnection(_ reply: String) async throws {
        let server = try FakeServer.scripted(reply)
        defer { server.stop() }
        try await withConnection("redis://127.0.0.1:\(server.port)") { redis in
            let error = await #expect(throws: RedisError.self) { try await redis.send(["GET", "k"]) }
            #expect(error?.kind == .protocolError)
            #expect(error?.mayHaveBeenApplied == true)
            try await eventually { redis.isConnected }
        }
    }
}
