import Redis
import ServiceRuntime
import TestSupport
import Testing

/// A connection to a private server that is ready; stopped when `body` ends.
@LoopActor
func withConnection<Answer: Sendable>(
    _ url: String, commandDeadline: Duration = .seconds(5), validate: RedisConfiguration.Validation? = nil,
    _ body: @LoopActor (RedisConnection) async throws -> Answer
) async throws -> Answer {
    let configuration = RedisConfiguration(
        address: try RedisAddress(url: url), commandDeadline: commandDeadline, validate: validate)
    let connection = RedisConnection(configuration, logger: .disabled, metrics: nil)
    connection.start()
    do {
        try await connection.ready(within: .seconds(40))
        let answer = try await body(connection)
        await connection.stop()
        return answer
    } catch {
        await connection.stop()
        throw error
    }
}

/// Waits until a connection that cannot become ready says why in words that satisfy `matches`.
@LoopActor
func expectRefusal(of redis: RedisConnection, _ matches: (RedisError) -> Bool) async throws {
    try await eventually("the refusal") {
        do throws(RedisError) {
            try await redis.ready(within: .milliseconds(20))
            return false
        } catch {
            return matches(error)
        }
    }
}

@Suite struct RedisConnectionTests {
    @Test @LoopActor func repliesOfEveryKindArriveAsTheyAre() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let binary: [UInt8] = [0, 13, 10, 255, 254, 0x2A, 0x24] + (0...255).map { UInt8($0) }
                #expect(try await redis.send(["SET", .bytes(binary), .bytes(binary)]) == .string(Array("OK".utf8)))
                #expect(try await redis.send(["GET", .bytes(binary)]).bytes == binary)
                #expect(try await redis.send(["GET", "nothing"]).isNull)
                #expect(try await redis.send(["INCRBY", "n", .int(.max)]).int == .max)
                #expect(try await redis.send(["DECRBY", "n", .int(.max)]) == .integer(0))
                #expect(try await redis.send(["INCRBY", "n", -12]) == .integer(-12))
                #expect(try await redis.send(["SET", "empty", ""]).text == "OK")
                #expect(try await redis.send(["GET", "empty"]) == .string([]))
                let nested = try await redis.send(["EVAL", "return {1, 'two', {redis.error_reply('E three')}, {}}", 0])
                #expect(
                    nested
                        == .array([
                            .integer(1), .string(Array("two".utf8)),
                            .array([.error(RedisError(.other(code: "E"), "E three"))]),
                            .array([]),
                        ]))
            }
        }
    }
}
