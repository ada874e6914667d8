import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct PipeliningTests {
    @Test @LoopActor func aThousandTasksEachGetTheirOwnReply() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let wrong = try await withThrowingTaskGroup(of: Int.self) { group in
                    for task in 0..<1000 {
                        group.addTask { @LoopActor @Sendable in
                            var wrong = 0
                            for round in 0..<20 {
                                let text = "\(task).\(round)." + String(repeating: "x", count: (task * 7 + round) % 900)
                                if try await redis.send(["ECHO", .string(text)]).text != text { wrong += 1 }
                            }
                            return wrong
                        }
                    }
                    var sum = 0
                    for try await wrong in group { sum += wrong }
                    return sum
                }
                #expect(wrong == 0)
            }
        }
    }

    @Test @LoopActor func tasksOfOneTurnAreServedInTheOrderTheySent() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let replies = await redis.send(pipeline: (0..<5000).map { ["RPUSH", "l", .int(Int64($0))] })
                #expect(try replies.map { try $0.get().int } == (1...5000).map { Int64($0) })
                let list = try await redis.send(["LRANGE", "l", 0, -1]).elements?.map(\.int)
                #expect(list == (0..<5000).map { Int64($0) })
            }
        }
    }

    @Test @LoopActor func anErrorInAPipelineStopsNothing() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let replies = await redis.send(pipeline: [["SET", "s", "v"], ["INCR", "s"], ["GET", "s"]])
                #expect(replies.count == 3)
                #expect(throws: RedisError.self) { try replies[1].get() }
                let third = try replies[2].get().text
                #expect(third == "v")
            }
        }
    }

    @Test @LoopActor func valuesLargerThanEveryBufferPass() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let large = [UInt8](repeating: 0xA5, count: 8 << 20) + Array("end".utf8)
                _ = try await redis.send(["SET", "large", .bytes(large)])
                let back = try await redis.send(["GET", "large"]).bytes
                #expect(back == large)
            }
        }
    }
}
