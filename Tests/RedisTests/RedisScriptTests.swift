import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct RedisScriptTests {
    private static let add = RedisScript(name: "add", text: "return redis.call('INCRBY', KEYS[1], ARGV[1])")

    @Test @LoopActor func afterTheCacheWasEmptiedEveryCallStillWorks() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                for expected in 1...3 {
                    #expect(try await redis.evaluate(Self.add, keys: ["n"], arguments: [1]).int == Int64(expected))
                }
                #expect(try await commandCalls("evalsha", redis) > 0)
                for expected in 4...6 {
                    _ = try await redis.send(["SCRIPT", "FLUSH"])
                    #expect(try await redis.evaluate(Self.add, keys: ["n"], arguments: [1]).int == Int64(expected))
                }
                try await server.restart()
                try await eventually { (try? await redis.send(["PING"])) != nil }
                #expect(try await redis.evaluate(Self.add, keys: ["n"], arguments: [1]).int == 7)
            }
        }
    }

    /// Returns, per call, key and argument; for the argument "bad" an error.
    private static let pairs = RedisScript(
        name: "pairs",
        text: """
            local out = {}
            for i = 2, #KEYS do
                redis.call('INCR', KEYS[1])
                local a = ARGV[1 + (i - 2) * 2 + 1]
                if a == 'bad' then out[i - 1] = redis.error_reply('OOPS ' .. KEYS[i])
                else out[i - 1] = KEYS[i] .. '/' .. ARGV[1] .. '/' .. a end
            end
            return out
            """)

    @Test @LoopActor func callsOfOneTurnShareOneScriptAndGetTheirOwnElement() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let batched = BatchedScript(
                    Self.pairs, on: redis, sharedKeys: ["count"], sharedArguments: ["s"], keysPerCall: 1,
                    argumentsPerCall: 2, batchMax: 64)
                for round in 0..<3 {
                    if round == 2 { _ = try await redis.send(["SCRIPT", "FLUSH"]) }
                    let wrong = await withTaskGroup(of: Bool.self) { group in
                        for call in 0..<200 {
                            group.addTask { @LoopActor @Sendable in
                                let isBad = call % 10 == 3
                                let argument: RedisArgument = isBad ? "bad" : .int(Int64(call))
                                do throws(RedisError) {
                                    let value = try await batched.call(keys: ["k\(call)"], arguments: [argument, "-"])
                                    return value.text != "k\(call)/s/\(call)"
                                } catch {
                                    return !isBad || error.kind != .other(code: "OOPS")
                                }
                            }
                        }
                        var sum = 0
                        for await isWrong in group where isWrong { sum += 1 }
                        return sum
                    }
                    #expect(wrong == 0)
                    #expect(try await redis.send(["GET", "count"]).int == Int64((round + 1) * 200))
                }
                let scripts = try await commandCalls("eval", redis) + commandCalls("evalsha", redis)
                // 3 rounds of 200 calls: 4 scripts each when all calls of a round fall into one turn.
                #expect(scripts < 60)
            }
        }
    }

    @Test @LoopActor func aWholeScriptsErrorAndAWrongCountAreEveryCalls() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                for (text, kind) in [
                    ("return redis.error_reply('NOREPLICAS none')", RedisError.Kind.noReplicas),
                    ("return {1, 2, 3}", .protocolError), ("return 1", .protocolError),
                ] {
                    let batched = BatchedScript(
                        RedisScript(name: "wrong", text: text), on: redis, keysPerCall: 0, argumentsPerCall: 0)
                    let error = await #expect(throws: RedisError.self) {
                        try await batched.call(keys: [], arguments: [])
                    }
                    #expect(error?.kind == kind)
                }
            }
        }
    }

    @Test @LoopActor func onlyAnIdempotentBatchIsSentAgain() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let script = RedisScript(name: "one", text: "return {redis.call('SETNX', KEYS[1], 'x')}")
                let once = BatchedScript(script, on: redis, keysPerCall: 1, argumentsPerCall: 0)
                let again = BatchedScript(script, on: redis, keysPerCall: 1, argumentsPerCall: 0, idempotent: true)
                await server.freeze()
                let first = Task { @LoopActor @Sendable in try await once.call(keys: ["a"], arguments: []) }
                async let second = again.call(keys: ["b"], arguments: [])
                try await eventually { redis.inFlightCount >= 2 }
                try await server.restart()
                let error = await #expect(throws: RedisError.self) { try await first.value }
                #expect(error?.kind == .connectionLost)
                #expect(try await second.int == 1)
            }
        }
    }

    @LoopActor private func commandCalls(_ command: String, _ redis: RedisConnection) async throws -> Int {
        let info = try await redis.send(["INFO", "commandstats"]).text ?? ""
        guard let line = info.split(separator: "\r\n").first(where: { $0.hasPrefix("cmdstat_\(command):") }) else {
            return 0
        }
        let calls = line.split(separator: "calls=").dropFirst().first?.split(separator: ",").first
        return calls.flatMap { Int($0) } ?? 0
    }
}
