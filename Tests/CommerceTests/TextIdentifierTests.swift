import Commerce
import Testing

@Suite struct TextIdentifierTests {
    @Test(arguments: ["a", "player-42", "A.b_c:d@e-f", "...", String(repeating: "x", count: 128)])
    func playerIDAccepts(_ text: String) throws {
        #expect(try PlayerID(validating: text).rawValue == text)
    }

    @Test(arguments: [
        ("", "is empty"),
        (String(repeating: "x", count: 129), "is longer than 128 bytes"),
        (String(repeating: "x", count: 10_240), "is longer than 128 bytes"),
        ("../admin", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("..", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        (".", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("a b", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("a\n", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("a\u{0}", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("{0}", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("%2e%2e", "may contain only letters, digits and . _ : @ -, and not be a path step"),
        ("é", "may contain only letters, digits and . _ : @ -, and not be a path step"),
    ])
    func playerIDRefuses(_ text: String, reason: String) {
        let error = #expect(throws: InvalidIdentifier.self) { try PlayerID(validating: text) }
        #expect(error?.description == "player id " + reason)
    }

    @Test(arguments: ["../x", "a/b", "a?b", "a#b", "a%2fb", "a\nb", "", ".."])
    func noKindOfIDLetsPathCharactersThrough(_ text: String) {
        #expect(ProductID(rawValue: text) == nil)
        #expect(StoreProductID(rawValue: text) == nil)
        #expect(TransactionID(rawValue: text) == nil)
        #expect(PurchaseToken(rawValue: text) == nil)
        #expect(OrderID(rawValue: text) == nil)
        #expect(PackageName(rawValue: text) == nil)
        #expect(EntitlementID(rawValue: text) == nil)
        #expect(CurrencyCode(rawValue: text) == nil)
        #expect(SubmissionID(rawValue: text) == nil)
    }

    @Test func transactionIDsAreDigitsOfAnyValue() {
        #expect(TransactionID(rawValue: "2000000403755054")?.rawValue == "2000000403755054")
        #expect(TransactionID(rawValue: "00098765432109876543210987654321") != nil)
        #expect(TransactionID(rawValue: "000987654321098765432109876543210") == nil)
        #expect(TransactionID(rawValue: "-1") == nil)
        #expect(TransactionID(rawValue: "1e9") == nil)
        #expect(TransactionID(rawValue: "١٢٣") == nil)
    }

    @Test func limitsAreCountedInBytesOfUTF8() {
        #expect(PurchaseToken(rawValue: String(repeating: "t", count: 2048)) != nil)
        #expect(PurchaseToken(rawValue: String(repeating: "t", count: 2049)) == nil)
        #expect(CurrencyCode(rawValue: "gems_2") != nil)
        #expect(CurrencyCode(rawValue: "Gems") == nil)
        for text in [
            "com.mygame-x", "mygame", "com..mygame", ".com.mygame", "com.mygame.", "com.1game", "1com.x", "_a.b",
        ] {
            #expect(PackageName(rawValue: text) == nil)
        }
        #expect(PackageName(rawValue: "Com.my_game2.Lite") != nil)
    }

    @Test func purchaseTokensAreNeverPrinted() throws {
        let token = try PurchaseToken(validating: "aaaabbbbccccdddd.AO-J1Omadeup")
        #expect("\(token)" == "(purchase token)")
        let duty = StoreDuty(
            .googleConsume, package: try PackageName(validating: "com.mygame"),
            storeProductID: try StoreProductID(validating: "gems_500"), token: token)
        #expect("\(duty)" == "google-consume of gems_500")
    }

    @Test func submissionIDsNameTheirPartition() throws {
        let id = SubmissionID(partition: 12, digest: Array(0...31))
        #expect(id.rawValue == "12-000102030405060708090a0b0c0d0e0f")
        #expect(try SubmissionID(validating: id.rawValue) == id)
        #expect(id.partition == 12)
        for text in [
            "0-", "-00", "0-000102030405060708090A0B0C0D0E0F", "0-000102030405060708090a0b0c0d0e0", "x-" + id.rawValue,
        ] {
            #expect(SubmissionID(rawValue: text) == nil)
        }
    }
}
