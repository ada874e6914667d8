import Commerce
import Testing

@Suite struct ReceiptTests {
    static let jws = "eyJhbGciOiJFUzI1NiJ9.eyJ0IjoxfQ.c2ln"
    static let token = "aaaabbbbccccddddeeeeffff.AO-J1Omadeup"
    static let legacy = "MIIT" + String(repeating: "Ab+/", count: 80)
    static let playJSON =
        #"{"orderId":"GPA.1","packageName":"com.mygame","productId":"gems_500","purchaseToken":"\#(token)"}"#

    static let accepted: [(text: String, store: Store?, kind: Receipt.Kind, normalised: String, hint: String?)] = [
        (jws, nil, .signedTransaction, jws, nil),
        (jws, .appStore, .signedTransaction, jws, nil),
        ("eyJhbGciOiJub25lIn0.e30.", nil, .signedTransaction, "eyJhbGciOiJub25lIn0.e30.", nil),
        (legacy, nil, .appReceipt, legacy, nil),
        (legacy, .appStore, .appReceipt, legacy, nil),
        (String(legacy.prefix(64)) + "\r\n" + legacy.dropFirst(64), nil, .appReceipt, legacy, nil),
        ("MIIT", .appStore, .appReceipt, "MIIT", nil),
        ("ewoJInNpZ25hdHVyZSI9", .appStore, .appReceipt, "ewoJInNpZ25hdHVyZSI9", nil),
        ("MIITYQ==", .appStore, .appReceipt, "MIITYQ==", nil),
        (token, nil, .purchaseToken, token, nil),
        (token, .googlePlay, .purchaseToken, token, nil),
        ("short", .googlePlay, .purchaseToken, "short", nil),
        ("MIaaaabbbbccccdddd.AO-J1O", nil, .purchaseToken, "MIaaaabbbbccccdddd.AO-J1O", nil),
        (String(repeating: "t", count: 2048), nil, .purchaseToken, String(repeating: "t", count: 2048), nil),
        (playJSON, nil, .purchaseToken, token, "gems_500"),
        (playJSON, .googlePlay, .purchaseToken, token, "gems_500"),
        (#"{"purchaseToken":"abc"}"#, nil, .purchaseToken, "abc", nil),
    ]

    @Test(arguments: accepted.indices)
    func isToldFromItsText(_ index: Int) throws {
        let row = Self.accepted[index]
        let inferred = try Receipt.infer(row.text, store: row.store)
        #expect(inferred.receipt.kind == row.kind)
        #expect(inferred.receipt.text == row.normalised)
        #expect(inferred.storeProductID?.rawValue == row.hint)
        #expect(inferred.receipt.store == (row.kind == .purchaseToken ? .googlePlay : .appStore))
        #expect((inferred.receipt.purchaseToken != nil) == (row.kind == .purchaseToken))
    }

    static let refused: [(text: String, store: Store?, reason: String)] = [
        ("", nil, "is empty"),
        ("short", nil, "is no receipt of a known kind"),
        (jws, .googlePlay, "is a signed transaction of Apple, but the platform is android"),
        (playJSON, .appStore, "is JSON of Google Play, but the platform is ios"),
        (token, .appStore, "is neither a signed transaction nor an app receipt"),
        ("hello", .appStore, "is neither a signed transaction nor an app receipt"),
        ("2000001234500777", .appStore, "is neither a signed transaction nor an app receipt"),
        ("MIIT$", .appStore, "is neither a signed transaction nor an app receipt"),
        ("MIITY", .appStore, "is an app receipt, but not complete base64"),
        ("MIIT=YQ=", .appStore, "is an app receipt, but not complete base64"),
        ("eyJh.b.c", .googlePlay, "is a signed transaction of Apple, but the platform is android"),
        (" " + jws, nil, "is no receipt of a known kind"),
        (jws + "\n", nil, "is no receipt of a known kind"),
        (jws + ".c2ln", nil, "is no receipt of a known kind"),
        ("aaaabbbbccccdddd/../../x", nil, "is no receipt of a known kind"),
        ("aaaabbbbccccdddd\u{0}", nil, "is no receipt of a known kind"),
        (String(repeating: "t", count: 2049), .googlePlay, "as a purchase token is longer than 2048 bytes"),
        ("a/b", .googlePlay, "as a purchase token may contain only letters, digits and . _ -, and not be a path step"),
        ("{}", nil, "as JSON of Google Play: purchaseToken: is missing"),
        ("{\"purchaseToken\":\"a b\"}", nil, "as JSON of Google Play: purchaseToken: may contain only"),
        (
            "{\"purchaseToken\":\"a\",\"productId\":\"../x\"}", nil,
            "as JSON of Google Play: productId: may contain only"
        ),
        ("{\"purchaseToken\":\"a\",\"purchaseToken\":\"b\"}", nil, "as JSON of Google Play: "),
        ("{", nil, "as JSON of Google Play: "),
        (
            "eyJ." + String(repeating: "A", count: 32 * 1024) + ".", nil,
            "is a signed transaction of more than 32768 bytes"
        ),
        ("{" + String(repeating: " ", count: 8 * 1024), nil, "is JSON of more than 8192 bytes"),
    ]

    @Test(arguments: refused.indices)
    func isRefusedWithAReason(_ index: Int) {
        let row = Self.refused[index]
        let error = #expect(throws: ReceiptMistake.self) { try Receipt.infer(row.text, store: row.store) }
        #expect(error?.reason.hasPrefix(row.reason) == true, "\(error?.reason ?? "")")
    }

    @Test func isNeverPrinted() throws {
        let receipt = try Receipt.infer(Self.jws).receipt
        var dumped = ""
        dump(receipt, to: &dumped)
        for text in ["\(receipt)", String(reflecting: receipt), dumped] {
            #expect(!text.contains("eyJ"))
            #expect(!text.isEmpty)
        }
    }
}
