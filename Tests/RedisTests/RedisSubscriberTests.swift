import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct RedisSubscriberTests {
    @LoopActor final class Ear {
        var heard: [String] = []
        var subscriptions = 0
    }

    @LoopActor private func subscriber(_ port: Int, _ ear: Ear) throws -> RedisSubscriber {
        RedisSubscriber(
            RedisConfiguration(address: try RedisAddress(url: "redis://127.0.0.1:\(port)")), logger: .disabled,
            metrics: nil,
            channels: ["a", "b"], onMessage: { ear.heard.append("\($0):" + String(decoding: $1, as: UTF8.self)) },
            onResubscribed: { ear.subscriptions += 1 })
    }

    @Test @LoopActor func hearsItsChannelsAndResubscribesAfterARestart() async throws {
        try await RedisServer.running { server in
            let ear = Ear()
            let subscriber = try subscriber(server.port, ear)
            subscriber.start()
            try await withConnection(server.url) { redis in
                for round in 1...3 {
                    try await eventually { ear.subscriptions == round }
                    try await eventually { (try? await redis.send(["PING"])) != nil }
                    #expect(try await redis.send(["PUBLISH", "a", "x\(round)"]).int == 1)
                    #expect(try await redis.send(["PUBLISH", "b", "y\(round)"]).int == 1)
                    #expect(try await redis.send(["PUBLISH", "c", "z"]).int == 0)
                    try await eventually { ear.heard.suffix(2) == ["a:x\(round)", "b:y\(round)"] }
                    if round < 3 { try await server.restart() }
                }
            }
            await subscriber.stop()
        }
    }

    @Test @LoopActor func staysThroughSilenceAndLeavesADeadSocket() async throws {
        try await RedisServer.running { server in
            let proxy = try BlackHoleProxy(to: server.port)
            let ear = Ear()
            let subscriber = try subscriber(proxy.port, ear)
            subscriber.start()
            try await eventually { ear.subscriptions == 1 }
            // Longer than a silent connection may be: the answers to PING keep it.
            try await pause(for: .seconds(5))
            #expect(ear.subscriptions == 1)
            proxy.swallow()
            proxy.forward()
            try await eventually("a fresh socket") { ear.subscriptions == 2 }
            await subscriber.stop()
            proxy.stop()
        }
    }
}
