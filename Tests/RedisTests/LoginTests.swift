import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct LoginTests {
    private static let users = [
        "requirepass default-word", "user worker on >w0rd ~teller:* +@all -@dangerous",
        "user api on >a%pi ~* +get -ping",
    ]

    @Test @LoopActor func usersAndTheDefaultUserLogIn() async throws {
        try await RedisServer.running(Self.users) { server in
            try await withConnection("redis://:default-word@127.0.0.1:\(server.port)/5") { redis in
                let user = try await redis.send(["ACL", "WHOAMI"]).text
                #expect(user == "default")
                #expect(try await redis.send(["CLIENT", "INFO"]).text?.contains(" db=5 ") == true)
            }
            try await withConnection("redis://worker:w0rd@127.0.0.1:\(server.port)") { redis in
                let allowed = try await redis.send(["SET", "teller:x", "1"]).text
                #expect(allowed == "OK")
                let error = await #expect(throws: RedisError.self) { try await redis.send(["SET", "other", "1"]) }
                #expect(error?.kind == .noPermission)
            }
        }
    }

    @Test @LoopActor func aUserWithoutPINGCanStillWork() async throws {
        try await RedisServer.running(Self.users) { server in
            try await withConnection("redis://api:a%25pi@127.0.0.1:\(server.port)") { redis in
                let value = try await redis.send(["GET", "x"])
                #expect(value.isNull)
            }
        }
    }

    @Test(arguments: [
        ("redis://worker:wrong@127.0.0.1", RedisError.Kind.wrongPassword), ("redis://127.0.0.1", .noAuth),
    ])
    @LoopActor func wrongCredentialsAreSaidAtOnce(_ url: String, _ kind: RedisError.Kind) async throws {
        try await RedisServer.running(Self.users) { server in
            let address = try RedisAddress(url: "\(url):\(server.port)")
            let redis = RedisConnection(RedisConfiguration(address: address), logger: .disabled, metrics: nil)
            redis.start()
            let start = MonotonicInstant.now
            let error = await #expect(throws: RedisError.self) { try await redis.ready(within: .seconds(20)) }
            #expect(error?.kind == kind)
            #expect(error.map { "\($0)".contains("wrong@") || "\($0)".contains("w0rd") } == false)
            #expect(start.elapsed < .seconds(5))
            await redis.stop()
        }
    }

    @Test @LoopActor func aUnixSocketWorksAndADatabaseIsChosen() async throws {
        try await RedisServer.running { server in
            try await withConnection("unix://\(server.socketPath)?db=3") { redis in
                #expect(try await redis.send(["CLIENT", "INFO"]).text?.contains(" db=3 ") == true)
                try await server.restart()
                try await eventually { (try? await redis.send(["PING"])) != nil }
                #expect(try await redis.send(["CLIENT", "INFO"]).text?.contains(" db=3 ") == true)
            }
        }
    }

    @Test @LoopActor func aNameIsResolved() async throws {
        try await RedisServer.running { server in
            try await withConnection("redis://localhost:\(server.port)") { redis in
                let answer = try await redis.send(["PING"]).text
                #expect(answer == "PONG")
            }
        }
    }

    @Test @LoopActor func aDatabaseThatDoesNotExistIsRefused() async throws {
        try await RedisServer.running { server in
            let address = try RedisAddress(url: "\(server.url)/999")
            let redis = RedisConnection(RedisConfiguration(address: address), logger: .disabled, metrics: nil)
            redis.start()
            try await expectRefusal(of: redis) { $0.message.contains("DB index is out of range") }
            await redis.stop()
        }
    }
}
