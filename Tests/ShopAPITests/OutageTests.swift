import Commerce
import HTTP
import Jobs
import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import ShopAPI

/// Redis away, frozen, full or exchanged: 503, soon, and never a "no".
@LoopActor
@Suite(.serialized) struct OutageTests {
    private func everythingIsUnavailable(_ shop: Shop) async throws {
        for answer in [
            try await shop.post(Shop.order(), wait: "wait=0"), try await shop.post(Shop.order(), wait: "wait=1"),
            try await shop.get("/shop/purchases/0-00000000000000000000000000000000"),
            try await shop.get("/shop/wallet?userId=ada"), try await shop.get("/shop/history?userId=ada"),
        ] {
            #expect(answer.summary == "503 temporarily-unavailable retry")
            #expect(answer.http.header("Retry-After") == "1")
        }
        #expect(shop.waiting == 0)
    }

    @Test func withoutRedisEverythingIsRefusedAndComesBack() async throws {
        try await RedisServer.running { server in
            try await Shop.run(on: server.url) { shop in
                #expect(try await shop.post(Shop.order("before")).status == 202)
                await server.kill()
                try await eventually("the loss to be noticed") { !shop.redis.isConnected }
                try await everythingIsUnavailable(shop)
                try await server.start()
                try await eventually(within: .seconds(20), "the shop to be open again") {
                    try await shop.post(Shop.order("after")).status == 202
                }
                #expect(try await shop.pending() == 2)
            }
        }
    }

    @Test func requestThatWaitsWhileRedisRestartsIsAnsweredWithItsResult() async throws {
        try await RedisServer.running { server in
            try await Shop.run(on: server.url) { shop in
                async let answer = shop.post(Shop.order(), wait: "wait=30")
                try await eventually("the receipt to be queued") { try await shop.pending() == 1 }
                try await server.restart()
                try await shop.redis.ready(within: .seconds(20))
                try await shop.credit(try await shop.lease(), transaction: "2000000000000201")
                #expect(try await answer.summary == "200 credited finish")
            }
        }
    }

    @Test func fullRedisTakesNoNewReceipt() async throws {
        try await RedisServer.running { server in
            try await Shop.run(on: server.url) { shop in
                #expect(try await shop.post(Shop.order("before")).status == 202)
                _ = try await shop.redis.send(["CONFIG", "SET", "maxmemory", "1"])
                let refused = try await shop.post(Shop.order())
                #expect(refused.summary == "503 temporarily-unavailable retry")
                // Reading goes on.
                #expect(try await shop.get("/shop/wallet?userId=ada").status == 200)
                _ = try await shop.redis.send(["CONFIG", "SET", "maxmemory", "0"])
                #expect(try await shop.pending() == 1)
            }
        }
    }

    @Test func wipedRedisIsNotTakenForAnEmptyShop() async throws {
        try await RedisServer.running { server in
            try await Shop.run(on: server.url) { shop in
                _ = try await shop.redis.send(["FLUSHALL"])
                #expect(try await shop.post(Shop.order()).summary == "503 temporarily-unavailable retry")
                #expect(try await shop.get("/shop/wallet?userId=ada").status == 503)
                #expect(try await shop.snapshot().isEmpty)
            }
        }
    }
}
