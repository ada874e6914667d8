import HTTP
import ServiceRuntime
import Signing
import StoreEmulator
import Testing

@Suite @LoopActor struct ControlAPITests {
    private func json(_ answer: HTTPAnswer) throws -> JSONView { try JSONView.parse(answer.body) }

    @Test func aPurchaseIsMadeAndShown() async throws {
        try await EmulatorScene.with { scene in
            let bought = try await scene.control(
                .post, "/purchases", #"{"store":"google","player":"ben","productId":"gems_500"}"#)
            #expect(bought.status == 201)
            let token = try json(bought).string("receipt")
            let shown = try json(try await scene.control(.get, "/purchases/google/\(token)"))
            #expect(try shown.string("purchaseToken") == token)
            #expect(try shown.int64("consumptionState") == 0)
            #expect(try shown.bool("mustBeCredited"))
            #expect(shown["receipt"] == nil)
            #expect(try await scene.control(.get, "/purchases/apple/\(token)").status == 404)
        }
    }

    @Test func everyMemberOfAPurchaseIsUnderstood() async throws {
        try await EmulatorScene.with { scene in
            let answer = try await scene.control(
                .post, "/purchases",
                #"""
                {"store":"apple","player":"ada","productId":"com.mygame.vip","type":"Non-Consumable","quantity":1,
                 "accountToken":"0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e","environment":"Sandbox","appId":"com.othergame",
                 "ownership":"FAMILY_SHARED","signer":"genuine","originalTransactionId":"2000000000000042",
                 "unknownReads":1,"purchasedAt":1792999999000,"priceMilliunits":1990,"currency":"USD","storefront":"USA"}
                """#)
            #expect(answer.status == 201)
            let payload = try scene.verified(json(answer).string("receipt")).json
            #expect(try payload.string("type") == "Non-Consumable")
            #expect(try payload.string("bundleId") == "com.othergame")
            #expect(try payload.string("environment") == "Sandbox")
            #expect(try payload.string("inAppOwnershipType") == "FAMILY_SHARED")
            #expect(try payload.string("originalTransactionId") == "2000000000000042")
            #expect(try payload.int64("purchaseDate") == 1_792_999_999_000)
            #expect(try payload.int64("price") == 1990)
            #expect(try json(answer).string("duty") == "must-not")
        }
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"store":"amazon","player":"a","productId":"b"}"#, #"{"store":"apple","player":"a"}"#,
        #"{"store":"apple","player":"a","productId":"b","quantity":0}"#,
        #"{"store":"apple","player":"a","productId":"b","quanttiy":2}"#,
        #"{"store":"apple","player":"a","productId":"b","state":"pending"}"#,
        #"{"purchases":[{"store":"apple","player":"a","productId":"b"},{"store":"apple"}]}"#,
    ])
    func aMistakeIsNamedAndBuysNothing(body: String) async throws {
        try await EmulatorScene.with { scene in
            let answer = try await scene.control(.post, "/purchases", body)
            #expect(answer.status == 400)
            #expect(try json(answer).string("error").isEmpty == false)
            #expect(scene.emulator.groundTruth.isEmpty)
        }
    }

    @Test func manyPurchasesAreMadeAtOnceAndReadInPages() async throws {
        try await EmulatorScene.with { scene in
            let one = #"{"store":"google","player":"p","productId":"gems_500"}"#
            let many = Array(repeating: one, count: 25).joined(separator: ",")
            let answer = try await scene.control(.post, "/purchases", #"{"purchases":[\#(many)]}"#)
            let receipts = try json(answer).elements("purchases").map { try $0.string("receipt") }
            #expect(Set(receipts).count == 25)
            var seen: [String] = []
            while true {
                let page = try json(try await scene.control(.get, "/ground-truth?offset=\(seen.count)&limit=10"))
                #expect(try page.int64("total") == 25)
                let ids = try page.elements("purchases").map { try $0.string("id") }
                if ids.isEmpty { break }
                seen += ids
            }
            #expect(seen == receipts)
            #expect(try await scene.control(.get, "/ground-truth?limit=0").status == 400)
        }
    }

    @Test func statesAreMovedAndImpossibleMovesRefused() async throws {
        try await EmulatorScene.with { scene in
            let body = #"{"store":"google","player":"b","productId":"gems_500","state":"pending"}"#
            let token = try json(try await scene.control(.post, "/purchases", body)).string("id")
            let path = "/purchases/google/\(token)/state"
            #expect(try await scene.control(.post, path, #"{"state":"refunded"}"#).status == 400)
            let paid = try json(try await scene.control(.post, path, #"{"state":"purchased"}"#))
            #expect(try paid.int64("purchaseState") == 0)
            #expect(try paid.string("duty") == "must")
            let refunded = try json(try await scene.control(.post, path, #"{"state":"refunded"}"#))
            #expect(try refunded.string("duty") == "may")
        }
    }

    @Test func anOldReceiptIsMadeOverGivenTransactions() async throws {
        try await EmulatorScene.with { scene in
            let body = #"{"store":"apple","player":"a","productId":"com.mygame.gems.500"}"#
            let id = try json(try await scene.control(.post, "/purchases", body)).string("transactionId")
            let receipt = try json(try await scene.control(.post, "/receipts", #"{"transactions":["\#(id)"]}"#))
                .string("receipt")
            let answer = try await scene.verifyReceipt(receipt)
            #expect(try answer.object("receipt").elements("in_app").count == 1)
            #expect(try await scene.control(.post, "/receipts", #"{"transactions":["1"]}"#).status == 404)
        }
    }

    @Test func knobsAreSetByStoreAndTakenBack() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(
                PurchaseRequest(store: .apple, player: "a", storeProductID: "com.mygame.gems.500"))
            #expect(try await scene.control(.put, "/faults", #"{"store":"apple","status":503}"#).status == 204)
            #expect(try await scene.transaction(purchase.id).status == 503)
            #expect(try await scene.control(.put, "/faults", #"{"store":"apple"}"#).status == 204)
            #expect(try await scene.transaction(purchase.id).status == 200)
            let knobs =
                #"{"endpoint":"apple.production.transaction","faults":[{"kind":"unauthorized-text","count":1}]}"#
            #expect(try await scene.control(.put, "/faults", knobs).status == 204)
            #expect(try await scene.transaction(purchase.id).status == 401)
            #expect(try await scene.transaction(purchase.id).status == 200)
            _ = try await scene.control(.put, "/faults", #"{"status":500}"#)
            #expect(try await scene.control(.delete, "/faults").status == 204)
            #expect(try await scene.transaction(purchase.id).status == 200)
            let stats = try json(try await scene.control(.get, "/stats"))
            #expect(try stats.int64("apple.production.transaction") == 5)
        }
    }

    @Test(arguments: [
        #"{"store":"appel"}"#, #"{"kind":"explode"}"#, #"{"status":1000}"#, #"{"share":2,"status":500}"#,
        #"{"latency":5}"#, #"{"faults":[{"kind":"status"}]}"#, #"{"faults":[{"kind":"reset","odds":1}]}"#,
    ])
    func aKnobThatDoesNotExistIsRefused(body: String) async throws {
        try await EmulatorScene.with { scene in
            let answer = try await scene.control(.put, "/faults", body)
            #expect(answer.status == 400)
        }
    }

    @Test func resetForgetsPurchasesAndKnobsButKeepsTheKeys() async throws {
        try await EmulatorScene.with { scene in
            let root = scene.emulator.rootFingerprint
            let purchase = try scene.emulator.purchase(
                PurchaseRequest(store: .google, player: "b", storeProductID: "gems_500"))
            _ = try await scene.control(.put, "/faults", #"{"status":503}"#)
            #expect(try await scene.control(.post, "/reset").status == 204)
            #expect(scene.emulator.groundTruth.isEmpty)
            let access = try await scene.accessToken()
            #expect(try await scene.send(.get, scene.productURL(purchase.id), token: access).status == 404)
            #expect(scene.emulator.rootFingerprint == root)
        }
    }

    @Test func theStoresConfigurationNamesThisEmulator() async throws {
        try await EmulatorScene.with { scene in
            let stores = try json(try await scene.control(.get, "/stores"))
            let apple = try stores.object("apple")
            #expect(try apple.string("productionURL") == scene.emulator.appleURL(.production))
            #expect(try apple.elements("rootFingerprints")[0].string() == scene.emulator.rootFingerprint)
            #expect(try stores.object("google").string("tokenURL") == scene.emulator.tokenURL)
        }
    }

    @Test func itRefusesToListenToTheWorld() {
        var configuration = StoreEmulator.Configuration()
        configuration.host = "0.0.0.0"
        #expect(throws: EmulatorError.notLoopback) { try StoreEmulator(configuration) }
    }
}
