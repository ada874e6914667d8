import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct RedisSafetyTests {
    @Test @LoopActor func theServerOfOurTestsIsSafe() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let violations = try await RedisSafety.check(redis)
                #expect(violations == [])
            }
        }
    }

    @Test(arguments: [
        ("appendonly no", "appendonly yes", "no", "CONFIG SET appendonly yes"),
        ("appendfsync everysec", "appendfsync always", "everysec", "CONFIG SET appendfsync always"),
        (
            "no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite no", "yes",
            "CONFIG SET no-appendfsync-on-rewrite no"
        ),
        (
            "maxmemory-policy allkeys-lru", "maxmemory-policy noeviction", "allkeys-lru",
            "CONFIG SET maxmemory-policy noeviction"
        ),
        ("replicaof 127.0.0.1 1", "role master", "slave", "REPLICAOF NO ONE"),
    ])
    @LoopActor func eachViolationIsNamedWithItsFix(
        _ line: String, _ rule: String, _ found: String, _ fix: String
    ) async throws {
        // A replica without its primary still answers questions about itself.
        try await RedisServer.running([line]) { server in
            try await withConnection(server.url) { redis in
                let violations = try await RedisSafety.check(redis)
                #expect(violations.map(\.rule) == [rule])
                #expect(violations.first?.found == found)
                #expect(violations.first?.fix.contains(fix) == true)
            }
        }
    }

    @Test @LoopActor func aUserWhoMayNotAskIsToldWhatToAllow() async throws {
        try await RedisServer.running(["user api on >p ~* +get +ping"]) { server in
            try await withConnection("redis://api:p@127.0.0.1:\(server.port)") { redis in
                let violations = try await RedisSafety.check(redis)
                #expect(violations.count == 5)
                #expect(violations.first?.fix.contains("+config|get") == true)
                #expect(violations.last?.fix.contains("+role") == true)
            }
        }
    }

    @Test @LoopActor func theCheckCanGuardEveryConnect() async throws {
        try await RedisServer.running(["appendfsync everysec"]) { server in
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url)) { handshake in
                if let violation = try await RedisSafety.check(handshake).first { throw violation }
            }
            let redis = RedisConnection(configuration, logger: .disabled, metrics: nil)
            redis.start()
            try await expectRefusal(of: redis) { $0.message.contains("CONFIG SET appendfsync always") }
            await redis.stop()
        }
    }
}
