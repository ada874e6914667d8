import Glibc
import Redis
import ServiceRuntime
import TestSupport
import Testing

extension BlockingConnection {
    /// Moves from "pending" to "arrived", and takes out of there what it moved.
    fileprivate func pop(seconds: Double) async throws(RedisError) -> [UInt8]? {
        let take = RedisScript(name: "take", text: "return redis.call('LPOP', KEYS[1])")
        return try await evaluate(
            take, keys: ["arrived"], arguments: [], onceMovedFrom: "pending", to: "arrived", within: seconds
        ).bytes
    }
}

/// A client that holds up the loop, and with it everything else in this process, until it has its answer.
private final class SynchronousClient {
    private let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)

    init(port: Int) throws {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let failed = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard failed == 0 else { throw RedisError(.notConnected, String(cString: strerror(errno))) }
    }

    deinit { close(fd) }

    /// Sends a command as people type it; its answer must come in one piece.
    func ask(_ command: String) -> String {
        let bytes = Array("\(command)\r\n".utf8)
        send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        var answer = [UInt8](repeating: 0, count: 256)
        let count = recv(fd, &answer, answer.count, 0)
        return String(decoding: answer.prefix(max(count, 0)), as: UTF8.self)
    }
}

@Suite(.serialized) struct BlockingConnectionTests {
    /// Pops in a loop, as a worker does, and remembers what came when.
    @LoopActor final class Consumer {
        let connection: BlockingConnection
        private(set) var elements: [String] = []
        private(set) var failures: [RedisError.Kind] = []
        private var isRunning = true

        init(port: Int) throws {
            let address = try RedisAddress(url: "redis://127.0.0.1:\(port)")
            connection = BlockingConnection(RedisConfiguration(address: address), logger: .disabled, metrics: nil)
            Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in await self.run() }
        }

        func stop() {
            isRunning = false
            connection.stop()
        }

        private func run() async {
            while isRunning {
                do throws(RedisError) {
                    let element = try await connection.pop(seconds: 1)
                    if let element { elements.append(String(decoding: element, as: UTF8.self)) }
                } catch {
                    failures.append(error.kind)
                }
            }
        }
    }

    @Test @LoopActor func scriptTakesWhatTheWaitBrought() async throws {
        try await withServer { blocking, redis in
            let start = MonotonicInstant.now
            #expect(try await blocking.pop(seconds: 0.2) == nil)
            #expect(start.elapsed >= .milliseconds(190))
            _ = try await redis.send(["LPUSH", "pending", "first", "second"])
            #expect(try await blocking.pop(seconds: 1) == Array("first".utf8))
            #expect(try await blocking.pop(seconds: 1) == Array("second".utf8))
            #expect(try await redis.send(["EXISTS", "pending", "arrived"]) == .integer(0))
            async let woken = blocking.pop(seconds: 5)
            _ = try await redis.send(["LPUSH", "pending", "third"])
            #expect(try await woken == Array("third".utf8))
        }
    }

    /// Goal: whoever pushed waits for no round trip of the one who waited.
    ///
    /// Method: a client that keeps this process from reading anything between its two commands.
    @Test @LoopActor func scriptRunsInTheTurnOfTheServerInWhichThePushCame() async throws {
        try await RedisServer.running { server in
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url))
            let blocking = BlockingConnection(configuration, logger: .disabled, metrics: nil)
            try await withConnection(server.url) { redis in
                async let woken = blocking.pop(seconds: 30)
                try await eventually {
                    try await redis.send(["INFO", "clients"]).text?.contains("blocked_clients:1") == true
                }
                let client = try SynchronousClient(port: server.port)
                #expect(client.ask("LPUSH pending x") == ":1\r\n")
                #expect(client.ask("EXISTS pending arrived") == ":0\r\n")
                #expect(try await woken == Array("x".utf8))
            }
            blocking.stop()
        }
    }

    @Test @LoopActor func refusalToMoveDoesNotKeepTheScriptFromRunningAndIsLoggedOnce() async throws {
        try await RedisServer.running { server in
            let log = try LogFile()
            let blocking = BlockingConnection(
                RedisConfiguration(address: try RedisAddress(url: server.url)), logger: log.logger, metrics: nil)
            try await withConnection(server.url) { redis in
                _ = try await redis.send(["SET", "pending", "not a list"])
                for element in ["one", "two"] {
                    _ = try await redis.send(["LPUSH", "arrived", .string(element)])
                    #expect(try await blocking.pop(seconds: 30) == Array(element.utf8))
                }
            }
            blocking.stop()
            #expect(log.events.filter { $0 == "redis refuses to wait for a push" }.count == 1)
        }
    }

    @Test @LoopActor func errorOfTheScriptIsThrownAndTheConnectionKept() async throws {
        try await withServer { blocking, redis in
            _ = try await redis.send(["SET", "arrived", "not a list"])
            await #expect(throws: RedisError.self) { try await blocking.pop(seconds: 0.1) }
            _ = try await redis.send(["DEL", "arrived"])
            _ = try await redis.send(["LPUSH", "pending", "next"])
            #expect(try await blocking.pop(seconds: 1) == Array("next".utf8))
        }
    }

    @Test @LoopActor func consumesAgainWithinTwoSecondsOfARestart() async throws {
        try await RedisServer.running { server in
            let consumer = try Consumer(port: server.port)
            try await produce("one", to: server, until: consumer)
            await server.kill()
            try await eventually { consumer.failures.count >= 3 }
            try await server.start()
            try await expectWithinTwoSeconds("two", server, consumer)
            consumer.stop()
        }
    }

    @Test @LoopActor func consumesAgainWithinTwoSecondsOfAFreeze() async throws {
        try await RedisServer.running { server in
            let consumer = try Consumer(port: server.port)
            try await produce("one", to: server, until: consumer)
            await server.freeze()
            try await eventually("the deadline") { consumer.failures.contains(.deadlineExceeded) }
            try await eventually("an attempt on a fresh socket") { consumer.failures.count >= 2 }
            await server.thaw()
            try await expectWithinTwoSeconds("two", server, consumer)
            consumer.stop()
        }
    }

    @Test @LoopActor func consumesAgainWithinTwoSecondsOfABlackHole() async throws {
        try await RedisServer.running { server in
            let proxy = try BlackHoleProxy(to: server.port)
            let consumer = try Consumer(port: proxy.port)
            try await produce("one", to: server, until: consumer)
            proxy.swallow()
            try await eventually("the deadline") { consumer.failures.contains(.deadlineExceeded) }
            try await eventually("attempts") { consumer.failures.count >= 3 }
            // The waiter left behind on the dead socket would take the element; let it go.
            try await pause(for: .seconds(1))
            proxy.forward()
            try await expectWithinTwoSeconds("two", server, consumer)
            consumer.stop()
            proxy.stop()
        }
    }

    @Test @LoopActor func cancellingClosesTheSocketAndReturns() async throws {
        try await RedisServer.running { server in
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url))
            let blocking = BlockingConnection(configuration, logger: .disabled, metrics: nil)
            let task = Task { @LoopActor @Sendable in try await blocking.pop(seconds: 30) }
            try await withConnection(server.url) { redis in
                try await eventually {
                    try await redis.send(["INFO", "clients"]).text?.contains("blocked_clients:1") == true
                }
                let start = MonotonicInstant.now
                task.cancel()
                await #expect(throws: RedisError.self) { try await task.value }
                #expect(start.elapsed < .seconds(1))
                try await eventually {
                    try await redis.send(["INFO", "clients"]).text?.contains("blocked_clients:0") == true
                }
            }
            blocking.stop()
        }
    }

    @LoopActor private func withServer(
        _ body: @LoopActor (BlockingConnection, RedisConnection) async throws -> Void
    ) async throws {
        try await RedisServer.running { server in
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url))
            let blocking = BlockingConnection(configuration, logger: .disabled, metrics: nil)
            try await withConnection(server.url) { redis in try await body(blocking, redis) }
            blocking.stop()
        }
    }

    @LoopActor private func produce(_ element: String, to server: RedisServer, until consumer: Consumer) async throws {
        try await withConnection(server.url) { redis in
            _ = try await redis.send(["LPUSH", "pending", .string(element)])
        }
        try await eventually { consumer.elements.contains(element) }
    }

    @LoopActor private func expectWithinTwoSeconds(
        _ element: String, _ server: RedisServer, _ consumer: Consumer
    ) async throws {
        let back = MonotonicInstant.now
        try await produce(element, to: server, until: consumer)
        #expect(back.elapsed < .seconds(2))
    }
}
