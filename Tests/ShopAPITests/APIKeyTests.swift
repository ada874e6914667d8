import Commerce
import HTTP
import Jobs
import ServiceRuntime
import Signing
import TestSupport
import Testing

@testable import ShopAPI

@LoopActor
@Suite struct APIKeyTests {
    private static func key(
        _ id: String, _ secret: String, _ scopes: Set<APIKey.Scope> = [.submit, .read], notAfter: Int64? = nil,
        rate: Int = 100_000, waits: Int = 100
    ) -> APIKey {
        APIKey(
            id: id, secretSHA256: Digest.sha256(Array(secret.utf8)), scopes: scopes, notAfterSeconds: notAfter,
            requestsPerSecondMax: rate, waitsMax: waits)
    }

    @Test(arguments: [
        nil, "", "Bearer", "Bearer ", "Bearer game", "Bearer game.", "Bearer .s3cret", "Bearer game.S3CRET",
        "Bearer game.s3cret.", "Bearer gamer.s3cret", "Bearer  game.s3cret", "Basic Z2FtZTpzM2NyZXQ=", "game.s3cret",
        "Token game.s3cret", "Bearer old.s3cret",
    ])
    func wrongKeyIsRefusedBeforeAnythingElse(authorization: String?) async throws {
        var plan = Shop.Plan()
        plan.keys.append(Self.key("old", "s3cret", notAfter: 1_700_000_000))
        try await Shop.run(plan) { shop in
            let before = try await shop.snapshot()
            for answer in [
                try await shop.post(Shop.order(), key: authorization), try await shop.post("", key: authorization),
                try await shop.get("/shop/wallet?userId=ada", key: authorization),
                try await shop.get("/shop/purchases/0-1", key: authorization),
            ] {
                #expect(answer.summary == "401 unauthenticated keep")
                #expect(answer.http.header("WWW-Authenticate") == "Bearer")
            }
            #expect(try await shop.snapshot() == before)
        }
    }

    @Test func enormousKeyIsRefused() async throws {
        try await Shop.run { shop in
            let answer = try await shop.post(Shop.order(), key: "Bearer game." + String(repeating: "s", count: 3000))
            #expect(answer.summary == "401 unauthenticated keep")
        }
    }

    @Test func schemeMayBeWrittenInAnyCase() async throws {
        try await Shop.run { shop in
            let answer = try await shop.post(Shop.order(), key: "bearer game.s3cret")
            #expect(answer.status == 202)
        }
    }

    @Test func secretMayHoldDots() async throws {
        var plan = Shop.Plan()
        plan.keys = [Self.key("game", "a.b.c")]
        try await Shop.run(plan) { shop in
            let answer = try await shop.get("/shop/wallet?userId=ada", key: "Bearer game.a.b.c")
            #expect(answer.status == 200)
        }
    }

    @Test func scopeDecidesWhatAKeyMayDo() async throws {
        var plan = Shop.Plan()
        plan.keys = [Self.key("writer", "w", [.submit]), Self.key("reader", "r", [.read])]
        try await Shop.run(plan) { shop in
            let id = try Shop.id(of: Shop.order()).rawValue
            let before = try await shop.snapshot()
            #expect(try await shop.post(Shop.order(), key: "Bearer reader.r").summary == "403 forbidden keep")
            #expect(
                try await shop.get("/shop/purchases/\(id)", key: "Bearer reader.r").summary == "403 forbidden keep")
            #expect(try await shop.snapshot() == before)
            for path in ["/shop/wallet?userId=ada", "/shop/history?userId=ada"] {
                #expect(try await shop.get(path, key: "Bearer writer.w").summary == "403 forbidden keep")
            }
            #expect(try await shop.post(Shop.order(), key: "Bearer writer.w").status == 202)
            #expect(try await shop.get("/shop/purchases/\(id)", key: "Bearer writer.w").status == 202)
            #expect(try await shop.get("/shop/wallet?userId=ada", key: "Bearer reader.r").status == 200)
            #expect(try await shop.get("/shop/history?userId=ada", key: "Bearer reader.r").status == 200)
        }
    }

    @Test func oldAndNewKeyWorkSideBySideWhileCallersMove() async throws {
        var plan = Shop.Plan()
        plan.keys = [Self.key("game-1", "one", notAfter: 4_000_000_000), Self.key("game-2", "two")]
        try await Shop.run(plan) { shop in
            for (key, status) in [("game-1.one", 202), ("game-2.two", 202), ("game-1.two", 401)] {
                let answer = try await shop.post(Shop.order(), key: "Bearer \(key)")
                #expect(answer.status == status)
            }
        }
    }

    @Test func rateOfAKeyIsBoundedAndRecovers() async throws {
        var plan = Shop.Plan()
        plan.keys = [Self.key("slow", "s", rate: 1), Self.key("game", "s3cret")]
        try await Shop.run(plan) { shop in
            let answers = try await withThrowingTaskGroup(of: Shop.Answer.self) { group in
                for _ in 1...40 {
                    group.addTask { @LoopActor @Sendable in
                        try await shop.get("/shop/wallet?userId=ada", key: "Bearer slow.s")
                    }
                }
                var answers: [Shop.Answer] = []
                for try await answer in group { answers.append(answer) }
                return answers
            }
            let refused = answers.filter { $0.status == 429 }
            let counts = Dictionary(grouping: answers, by: \.status).mapValues(\.count)
            #expect(Set(counts.keys) == [200, 429] && counts[429, default: 0] >= 10, "\(counts)")
            for answer in refused {
                #expect(answer.summary == "429 too-many-requests retry")
                #expect(answer.http.header("Retry-After") == "1")
            }
            // Others are not held back, and after a while neither is this one.
            #expect(try await shop.get("/shop/wallet?userId=ada").status == 200)
            try await eventually("room in the rate") {
                try await shop.get("/shop/wallet?userId=ada", key: "Bearer slow.s").status == 200
            }
        }
    }

    @Test func waitsOfAKeyAreCapped() async throws {
        var plan = Shop.Plan()
        plan.keys = [Self.key("game", "s3cret", waits: 1)]
        try await Shop.run(plan) { shop in
            async let first = shop.post(Shop.order("a"), wait: "wait=25")
            try await eventually("the first to wait for its queued receipt") { try await shop.pending() == 1 }
            let second = try await shop.post(Shop.order("b"), wait: "wait=25")
            #expect(second.summary == "429 too-many-requests retry")
            #expect(second.http.header("Retry-After") == "1")
            #expect(try await shop.pending() == 1)
            #expect(try await shop.post(Shop.order("b"), wait: "wait=0").status == 202)
            // A place is free again when its owner has its answer.
            try await shop.settle(try await shop.lease(), .rejected, .refunded, player: "a")
            #expect(try await first.summary == "422 refunded finish")
            async let third = shop.post(Shop.order("b"), wait: "wait=25")
            try await eventually("another to wait") { shop.waiting == 1 }
            shop.api.stopWaiting()
            #expect(try await third.status == 202)
        }
    }
}
