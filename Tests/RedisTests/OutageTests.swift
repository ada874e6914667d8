import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite(.serialized) struct OutageTests {
    @Test @LoopActor func whatWasSentAndNotAnsweredIsSaidToBeUnknownAndIsNotRepeated() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                #expect(try await redis.send(["INCR", "n"]).int == 1)
                await server.freeze()
                let lost = Task { @LoopActor @Sendable in try await redis.send(["INCR", "n"]) }
                try await eventually { redis.inFlightCount == 1 }
                await server.kill()
                let error = await #expect(throws: RedisError.self) { try await lost.value }
                #expect(error?.kind == .connectionLost)
                #expect(error?.mayHaveBeenApplied == true)

                let down = await #expect(throws: RedisError.self) { try await redis.send(["INCR", "n"]) }
                #expect(down?.kind == .notConnected)
                #expect(down?.mayHaveBeenApplied == false)

                async let waiting = redis.send(["GET", "n"], idempotent: true)
                try await server.start()
                let value = try await waiting.int
                // The frozen server never ran the second INCR, so a 2 would be a repetition by the client.
                #expect(value == 1)
            }
        }
    }

    @Test @LoopActor func anIdempotentCommandLostOnTheWayIsSentAgain() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                await server.freeze()
                async let value = redis.send(["SET", "k", "v"], idempotent: true)
                async let script = redis.evaluate(
                    RedisScript(name: "get", text: "return ARGV[1]"), keys: [], arguments: ["x"], idempotent: true)
                try await eventually { redis.inFlightCount >= 2 }
                try await server.restart()
                #expect(try await value.text == "OK")
                #expect(try await script.text == "x")
            }
        }
    }

    @Test @LoopActor func aSilentServerIsGivenUpAtTheDeadline() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url, commandDeadline: .milliseconds(300)) { redis in
                await server.freeze()
                let start = MonotonicInstant.now
                let error = await #expect(throws: RedisError.self) { try await redis.send(["INCR", "n"]) }
                #expect(error?.kind == .deadlineExceeded)
                #expect(error?.mayHaveBeenApplied == true)
                #expect(start.elapsed >= .milliseconds(250) && start.elapsed < .seconds(3))
                let idempotent = await #expect(throws: RedisError.self) {
                    try await redis.send(["GET", "n"], idempotent: true)
                }
                #expect(idempotent?.isRetryable == true)
                let thawed = MonotonicInstant.now
                await server.thaw()
                try await redis.ready(within: .seconds(5))
                #expect(thawed.elapsed < .seconds(2))
            }
        }
    }

    /// A dead route: the first connection swallows everything, while others are answered.
    @Test @LoopActor func aConnectionThatIsSilentWhileOthersAreAnsweredIsReplaced() async throws {
        var first: Int?
        var isDead = false
        let server = try FakeServer { peer, bytes in
            first = first ?? peer
            if isDead, peer == first { return [] }
            return Array(String(decoding: bytes, as: UTF8.self).contains("PING") ? "+PONG\r\n".utf8 : ":1\r\n".utf8)
        }
        defer { server.stop() }
        try await withConnection("redis://127.0.0.1:\(server.port)") { redis in
            #expect(try await redis.send(["INCR", "n"]).int == 1)
            isDead = true
            let start = MonotonicInstant.now
            let error = await #expect(throws: RedisError.self) { try await redis.send(["INCR", "n"]) }
            #expect(error?.kind == .connectionLost)
            #expect(error?.mayHaveBeenApplied == true)
            try await redis.ready(within: .seconds(5))
            #expect(start.elapsed < .seconds(3), "long before the deadline of a command")
            #expect(try await redis.send(["INCR", "n"]).int == 1)
        }
    }

    @Test @LoopActor func aServerThatIsSilentToEverybodyIsWaitedFor() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                await server.freeze()
                async let slow = redis.send(["INCR", "n"])
                try await pause(for: .seconds(2))
                await server.thaw()
                // Not sent again (that would be 2), and not given up.
                #expect(try await slow.int == 1)
            }
        }
    }

    @Test @LoopActor func workGoesOnSoonAfterARestartAndTheOwnerIsTold() async throws {
        try await RedisServer.running { server in
            var checks = 0
            let validate: RedisConfiguration.Validation = { handshake in
                _ = try await handshake.send(["SET", "checked", "yes"])
                checks += 1
            }
            try await withConnection(server.url, validate: validate) { redis in
                var reconnects = 0
                redis.onReconnect { reconnects += 1 }
                for round in 1...3 {
                    try await server.restart()
                    let back = MonotonicInstant.now
                    try await eventually { redis.isConnected && reconnects == round }
                    #expect(back.elapsed < .seconds(2))
                    #expect(checks == round + 1)
                    #expect(try await redis.send(["INCR", "n"]).int == Int64(round))
                }
            }
        }
    }

    @Test @LoopActor func aCommandOutlivesAServerThatIsRefusedForAMoment() async throws {
        struct NotThisOne: Error {}
        try await RedisServer.running { server in
            var isRefused = false
            var refusals = 0
            let validate: RedisConfiguration.Validation = { _ in
                guard isRefused else { return }
                refusals += 1
                throw NotThisOne()
            }
            try await withConnection(server.url, commandDeadline: .seconds(40), validate: validate) { redis in
                isRefused = true
                try await server.restart()
                async let waiting = redis.send(["PING"], idempotent: true)
                try await expectRefusal(of: redis) { $0.kind == .refused }
                try await eventually("refused again") { refusals > 2 }
                isRefused = false
                #expect(try await waiting == .string(Array("PONG".utf8)))
            }
        }
    }

    @Test @LoopActor func attemptsAgainstAClosedPortAreFewButDoNotStop() async throws {
        let server = try FakeServer { peer, _ in Array("-LOADING still reading\r\n".utf8) }
        defer { server.stop() }
        let address = try RedisAddress(url: "redis://127.0.0.1:\(server.port)")
        let redis = RedisConnection(RedisConfiguration(address: address), logger: .disabled, metrics: nil)
        redis.start()
        let error = await #expect(throws: RedisError.self) { try await redis.ready(within: .seconds(3)) }
        #expect(error?.kind == .loading)
        // Pauses of 25, 50, 100, 200, 250, 250, … ms on average.
        #expect((3...40).contains(server.acceptedCount))
        await redis.stop()
    }

    @Test @LoopActor func refusedByItsOwnerNoCommandFlows() async throws {
        struct NotOurs: Error {}
        try await RedisServer.running { server in
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url)) { _ in throw NotOurs() }
            let redis = RedisConnection(configuration, logger: .disabled, metrics: nil)
            redis.start()
            try await expectRefusal(of: redis) { $0.kind == .refused }
            #expect(!redis.isConnected)
            await redis.stop()
        }
    }

    @Test @LoopActor func stoppingWaitsForTheRepliesThatAreDue() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                async let slow = redis.send(["EVAL", "local i = 0 while i < 3000000 do i = i + 1 end return i", 0])
                try await eventually { redis.inFlightCount == 1 }
                await redis.stop()
                #expect(try await slow.int == 3_000_000)
                let error = await #expect(throws: RedisError.self) { try await redis.send(["PING"]) }
                #expect(error?.kind == .notConnected)
            }
        }
    }
}
