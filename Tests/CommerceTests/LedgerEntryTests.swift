import Commerce
import ServiceRuntime
import Testing

@Suite struct LedgerEntryTests {
    static let submission = SubmissionID(digest: Array(0...15))

    @Test func schemaVersionOneIsPinned() throws {
        let entry = LedgerEntry(
            crediting: try Samples.applePurchase(quantity: 2), submission: Self.submission,
            creditedAtMilliseconds: 1_793_000_000_123)
        #expect(
            String(decoding: entry.json, as: UTF8.self) == """
                {"v":1,"kind":"credit","key":"apple:Sandbox:2000000403755054","store":"apple","environment":"Sandbox",\
                "transactionId":"2000000403755054",\
                "productId":"gems_pack_medium","storeProductId":"com.mygame.gems.500","quantity":2,\
                "grants":{"gems":"1100"},"priceMilliunits":4990,"priceCurrency":"EUR","storefront":"DEU","test":true,\
                "purchasedAtMs":1793000000000,"product":{"type":"iap_consumable","displayName":"500 crystals",\
                "gemAmount":500,"bonusGemAmount":50},"submissionId":"0-000102030405060708090a0b0c0d0e0f",\
                "creditedAtMs":1793000000123}
                """)
    }

    @Test func readsBackWhatItWrote() throws {
        for purchase in [try Samples.applePurchase(), try Samples.promoPurchase()] {
            let entry = LedgerEntry(crediting: purchase, submission: Self.submission, creditedAtMilliseconds: 7)
            #expect(try LedgerEntry(json: try JSONView.parse(entry.json)) == entry)
        }
        let promo = LedgerEntry(crediting: try Samples.promoPurchase(), submission: Self.submission)
        #expect(promo.grants.entitlements.map(\.rawValue) == ["gold_pass"])
        #expect(promo.isPromo)
        #expect(promo.orderID == nil)
    }

    @Test func anotherOriginalTransactionIsKept() throws {
        var entry = LedgerEntry(crediting: try Samples.applePurchase(), submission: Self.submission)
        entry.originalTransactionID = try TransactionID(validating: "2000000403750000")
        #expect(try LedgerEntry(json: try JSONView.parse(entry.json)) == entry)
        #expect(String(decoding: entry.json, as: UTF8.self).contains("\"originalTransactionId\":\"2000000403750000\""))
    }

    @Test func timeAndBraceCompleteTheOpenForm() throws {
        var entry = LedgerEntry(crediting: try Samples.applePurchase(), submission: Self.submission)
        let closed = entry.openJSON + Array("1793000000123}".utf8)
        entry.creditedAtMilliseconds = 1_793_000_000_123
        #expect(closed == entry.json)
    }

    @Test func fieldsOfLaterVersionsAreIgnored() throws {
        let entry = LedgerEntry(crediting: try Samples.applePurchase(), submission: Self.submission)
        let text = String(decoding: entry.json, as: UTF8.self).replacing("\"v\":1", with: "\"v\":1,\"new\":[{}]")
        #expect(try LedgerEntry(json: try JSONView.parse(text)) == entry)
    }

    static let broken: [(from: String, to: String, path: String)] = [
        ("\"v\":1", "\"v\":2", "v"), ("\"credit\"", "\"gift\"", "kind"), ("\"1100\"", "1100", "grants.gems"),
        ("\"1100\"", "\"11.5\"", "grants.gems"), ("\"1100\"", "\"9007199254740992\"", "grants.gems"),
        ("\"gems\":", "\"Gems\":", "grants.Gems"), ("\"quantity\":2", "\"quantity\":\"2\"", "quantity"),
        ("\"creditedAtMs\":7", "\"creditedAtMs\":null", "creditedAtMs"),
        ("\"2000000403755054\",\"prod", "2000000403755054,\"prod", "transactionId"),
    ]

    @Test(arguments: broken.indices)
    func damageIsNamed(_ index: Int) throws {
        let row = Self.broken[index]
        let entry = LedgerEntry(
            crediting: try Samples.applePurchase(quantity: 2), submission: Self.submission, creditedAtMilliseconds: 7)
        let text = String(decoding: entry.json, as: UTF8.self).replacing(row.from, with: row.to)
        let error = #expect(throws: JSONError.self) { try LedgerEntry(json: try JSONView.parse(text)) }
        #expect(error?.path == row.path)
    }
}
