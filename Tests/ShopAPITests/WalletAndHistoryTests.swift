import Commerce
import HTTP
import ServiceRuntime
import TestSupport
import Testing

@testable import ShopAPI

@LoopActor
@Suite struct WalletAndHistoryTests {
    @Test func unknownPlayerHasNothing() async throws {
        try await Shop.run { shop in
            let before = try await shop.snapshot()
            let wallet = try await shop.get("/shop/wallet?userId=nobody")
            #expect(
                String(decoding: wallet.http.body, as: UTF8.self)
                    == #"{"userId":"nobody","balances":{"gems":0},"entitlements":[]}"#)
            let history = try await shop.get("/shop/history?userId=nobody")
            #expect(String(decoding: history.http.body, as: UTF8.self) == #"{"userId":"nobody","entries":[]}"#)
            #expect(try await shop.snapshot() == before)
        }
    }

    @Test func idsMayBePercentEncoded() async throws {
        try await Shop.run { shop in
            try await shop.credit("2000000000000101", to: "team:ada@home")
            let wallet = try await shop.get("/shop/wallet?userId=team%3Aada%40home")
            #expect(wallet.text("userId") == "team:ada@home")
            #expect(try wallet.json?.object("balances").int64("gems") == 550)
        }
    }

    @Test func entryTellsEverythingButTheSecretPart() async throws {
        try await Shop.run { shop in
            try await shop.credit("2000000000000102", quantity: 2)
            let page = try await shop.get("/shop/history?userId=ada")
            let entry = try #require(try page.json?.elements("entries").first)
            #expect(try entry.string("kind") == "credit")
            #expect(try entry.string("transactionId") == "2000000000000102")
            #expect(try entry.string("store") == "apple" && entry.string("environment") == "Production")
            #expect(try entry.string("productId") == "gems_pack_medium")
            #expect(try entry.string("storeProductId") == "com.mygame.gems.500")
            #expect(try entry.int64("quantity") == 2 && entry.int64("position") == 1)
            #expect(try entry.object("granted").int64("gems") == 1100)
            #expect(try entry.string("purchasedAt") == "2026-10-26T07:33:20.000Z")
            #expect(UnixMilliseconds(rfc3339: try entry.string("creditedAt")) != nil)
            #expect(entry["key"] == nil && page.json?["nextCursor"] == nil)
        }
    }

    @Test(arguments: [1, 4, 10, 100])
    func pagesNeitherRepeatNorSkipWhileEntriesAreAppended(limit: Int) async throws {
        try await Shop.run { shop in
            for number in 1...10 { try await shop.credit("30000000000000\(number + 10)") }
            var positions: [Int64] = []
            var cursor: String?
            var added = 50
            repeat {
                let page = try await shop.get(
                    "/shop/history?userId=ada&limit=\(limit)" + (cursor.map { "&cursor=\($0)" } ?? ""))
                let entries = try #require(try page.json?.elements("entries"))
                #expect(entries.count <= limit)
                positions += try entries.map { try $0.int64("position") }
                cursor = page.text("nextCursor")
                added += 1
                try await shop.credit("30000000000000\(added)")
            } while cursor != nil
            #expect(positions == Array(stride(from: 10, through: 1, by: -1)))
            let newest = try await shop.get("/shop/history?userId=ada&limit=1")
            #expect(try newest.json?.elements("entries").first?.int64("position") == Int64(10 + added - 50))
        }
    }

    @Test func cursorBeyondTheEndIsAnEmptyOrWholePage() async throws {
        try await Shop.run { shop in
            try await shop.credit("2000000000000103")
            let far = try await shop.get("/shop/history?userId=ada&cursor=\(Int64.max)")
            #expect(far.status == 200)
            let first = try await shop.get("/shop/history?userId=ada&cursor=1")
            #expect(try first.json?.elements("entries").isEmpty == true)
        }
    }
}
