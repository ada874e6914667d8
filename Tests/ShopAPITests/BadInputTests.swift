import Commerce
import HTTP
import ServiceRuntime
import TestSupport
import Testing

@testable import ShopAPI

/// Goal: whatever comes in, the answer is a clear 4xx with a reason and an action, and Redis is as it was.
@LoopActor
@Suite struct BadInputTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let body: [UInt8]
        let expected: String
        var testDescription: String { name }

        init(_ name: String, _ body: String, _ expected: String = "400 malformed-request keep") {
            self.init(name, bytes: Array(body.utf8), expected)
        }

        init(_ name: String, bytes: [UInt8], _ expected: String = "400 malformed-request keep") {
            self.name = name
            body = bytes
            self.expected = expected
        }
    }

    private nonisolated static let receipt = "eyJhbGciOiJFUzI1NiJ9.eyJ0IjoxfQ.c2ln"
    private nonisolated static let token = "aaaabbbbccccddddeeeeffff.AO-J1Omadeup"

    /// A good request with some members replaced; nil leaves one out, values are raw JSON.
    private nonisolated static func order(_ changes: [(String, String?)]) -> String {
        var members = [("userId", "\"ada\""), ("productId", "\"gems_pack_medium\""), ("receiptData", "\"\(receipt)\"")]
        for (key, value) in changes {
            members.removeAll { $0.0 == key }
            if let value { members.append((key, value)) }
        }
        return "{" + members.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}"
    }

    private nonisolated static func rows(_ name: String, _ key: String, _ values: [String]) -> [Row] {
        values.map { Row("\(name): \($0.prefix(24))", order([(key, $0)])) }
    }

    nonisolated static let documents: [Row] =
        [
            Row("empty body", ""), Row("not JSON", "userId=ada&receiptData=x"),
            Row("half a document", #"{"userId":"a"#),
            Row("two documents", order([]) + order([])), Row("an array", "[1]"), Row("a string", "\"ada\""),
            Row("null", "null"), Row("empty object", "{}"),
            Row("repeated member", #"{"userId":"ada","userId":"bob","receiptData":"\#(receipt)"}"#),
            Row("deep nesting", order([("userId", String(repeating: "[", count: 5000))])),
            Row("nesting within the syntax", order([("userId", "[[[[[[[[[1]]]]]]]]]")])),
            Row("invalid UTF-8", bytes: Array(#"{"userId":"a"#.utf8) + [0xFF, 0xC0] + Array(#""}"#.utf8)),
            Row("overlong UTF-8", bytes: Array(#"{"userId":""#.utf8) + [0xC0, 0xAF] + Array(#""}"#.utf8)),
            Row("NUL in the text", bytes: Array(#"{"userId":"a"#.utf8) + [0] + Array(#""}"#.utf8)),
            Row("escaped NUL", order([("userId", #""ada\u0000""#)])),
            Row("lone surrogate", order([("userId", #""\ud800""#)])),
            Row("unknown member", order([("acountToken", "\"x\"")])),
            Row("member of an attacker's length", order([(String(repeating: "k", count: 60_000), "1")])),
            Row("without userId", order([("userId", nil)])), Row("without receiptData", order([("receiptData", nil)])),
            Row("UTF-16", bytes: order([]).utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }),
        ]
        + rows("number out of range", "userId", ["1e400", "-1e400", "99999999999999999999", "NaN", "Infinity", "0x10"])
        + rows("wrong type of userId", "userId", ["7", "7.5", "true", "null", "[]", "{}"])
        + rows("wrong type of receiptData", "receiptData", ["7", "false", "null", "[\"a\"]", "{}"])
        + rows("wrong type of productId", "productId", ["7", "true", "[]", "{}"])
        + rows("wrong type of platform", "platform", ["7", "[]", "\"windows\"", "\"\"", "\"iOS \""])
        + rows("wrong type of accountToken", "accountToken", ["7", "[]", "\"\"", "\"a b\"", "\"\\n\""])

    nonisolated static let ids: [Row] =
        ["../x", "a/b", "a%2Fb", "a?b", "a#b", "a b", "a\\nb", "..", ".", "", "а", "a\\u0007", "\\u202e"].flatMap {
            id in
            ["userId", "productId", "storeProductId"].map { key in
                Row("\(id.isEmpty ? "nothing" : id) as \(key)", order([(key, "\"\(id)\"")]))
            }
        }
        + [
            Row("userId of 10 KB", order([("userId", "\"\(String(repeating: "u", count: 10_240))\"")])),
            Row("productId of 10 KB", order([("productId", "\"\(String(repeating: "p", count: 10_240))\"")])),
            Row("accountToken of 65 bytes", order([("accountToken", "\"\(String(repeating: "t", count: 65))\"")])),
            Row("purchase token with a path", order([("receiptData", "\"aaaabbbbccccddddeeee/../x\"")])),
        ]

    nonisolated static let receipts: [Row] = [
        Row("empty receipt", order([("receiptData", "\"\"")])),
        Row("blank receipt", order([("receiptData", "\"   \"")])),
        Row("no known receipt", order([("receiptData", "\"hello\"")])),
        Row(
            "JWS of two parts",
            order([("receiptData", "\"eyJhbGciOiJFUzI1NiJ9.eyJ0IjoxfQ\""), ("platform", "\"ios\"")])),
        Row(
            "JWS over 32 KiB",
            order([("receiptData", "\"eyJ.\(String(repeating: "A", count: 33_000)).c2ln\"")])),
        Row("token over 2 KiB", order([("receiptData", "\"\(String(repeating: "a", count: 2049))\"")])),
        Row(
            "Play's JSON over 8 KiB",
            order([
                (
                    "receiptData",
                    #""{\"purchaseToken\":\"\#(token)\",\"x\":\"\#(String(repeating: "a", count: 9000))\"}""#
                )
            ])),
        Row("Play's JSON without a token", order([("receiptData", #""{\"orderId\":\"GPA.1\"}""#)])),
        Row("Play's JSON that is none", order([("receiptData", #""{oops""#)])),
        Row("JWS named android", order([("platform", "\"android\"")])),
        Row("token named ios", order([("receiptData", "\"\(token)\""), ("platform", "\"ios\"")])),
        Row("store contradicts platform", order([("platform", "\"ios\""), ("store", "\"google\"")])),
        Row("bare token without product", order([("receiptData", "\"\(token)\""), ("productId", nil)])),
        Row(
            "unknown product", order([("productId", "\"gems_pack_imaginary\"")]), "422 unknown-product keep"),
        Row(
            "product of the other platform", order([("productId", "\"android_only\"")]), "422 product-not-in-store keep"
        ),
        Row(
            "body over 128 KiB without a legacy receipt", order([]) + String(repeating: " ", count: 132_000),
            "413 body-too-large keep"),
        Row(
            "legacy receipt over its cap", order([("receiptData", "\"MI\(String(repeating: "A", count: 983_042))\"")]),
            "400 malformed-request keep"),
        Row("body over 1 MiB", String(repeating: " ", count: 1_048_577), "413 body-too-large keep"),
    ]

    private func refuses(_ row: Row) async throws {
        try await Shop.run { shop in
            let before = try await shop.snapshot()
            let answer = try await shop.post(bytes: row.body)
            #expect(answer.summary == row.expected)
            #expect(answer.http.header("Content-Type") == "application/problem+json")
            #expect(answer.text("type") == "urn:teller:problem:\(answer.reason ?? "")")
            #expect(answer.number("status") == Int64(answer.status))
            #expect(answer.text("title")?.isEmpty == false)
            #expect(answer.http.body.count < 1000)
            #expect(try await shop.snapshot() == before)
        }
    }

    @Test(arguments: documents) func documentIsRefused(_ row: Row) async throws { try await refuses(row) }
    @Test(arguments: ids) func idIsRefused(_ row: Row) async throws { try await refuses(row) }
    @Test(arguments: receipts) func receiptIsRefused(_ row: Row) async throws { try await refuses(row) }

    @Test func refusalNamesTheFieldAndNeverTheValue() async throws {
        try await Shop.run { shop in
            let answer = try await shop.post(Self.order([("userId", "\"secret/of/mine\"")]))
            #expect(answer.text("detail")?.contains("userId") == true)
            #expect(!String(decoding: answer.http.body, as: UTF8.self).contains("secret"))
            let syntax = try await shop.post("{\n  \"userId\": oops}")
            #expect(syntax.text("detail")?.contains("line 2") == true)
        }
    }

    @Test(arguments: [
        nil, "", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json",
    ])
    func otherContentTypesAreRefused(type: String?) async throws {
        try await Shop.run { shop in
            let before = try await shop.snapshot()
            let answer = try await shop.post(Shop.order(), type: type)
            #expect(answer.summary == "415 unsupported-media-type keep")
            #expect(try await shop.snapshot() == before)
        }
    }

    @Test(arguments: ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""])
    func jsonIsAccepted(type: String) async throws {
        try await Shop.run { shop in
            let answer = try await shop.post(Shop.order(), type: type)
            #expect(answer.status == 202)
        }
    }

    @Test(arguments: [
        (HTTPMethod.get, "/shop/purchase"), (.put, "/shop/purchase"), (.delete, "/shop/purchase"),
        (.post, "/shop/wallet"), (.post, "/shop/history"), (.delete, "/shop/purchases/0-1"),
    ])
    func otherMethodsAreRefused(method: HTTPMethod, path: String) async throws {
        try await Shop.run { shop in
            let answer = try await shop.send(
                method, path, headers: [("Content-Type", "application/json")],
                body: method == .get ? nil : Array(Shop.order().utf8))
            #expect(answer.status == 405 && answer.reason == "method-not-allowed" && answer.action == "keep")
            #expect(answer.http.header("Allow")?.isEmpty == false)
            #expect(try await shop.pending() == 0)
        }
    }

    @Test(arguments: [
        ("/", "404 not-found keep"), ("/shop", "404 not-found keep"), ("/shop/purchases", "404 not-found keep"),
        ("/shop/purchases/..%2f..%2fetc", "404 unknown-submission retry"),
        ("/shop/purchases/%2e%2e", "400 malformed-request keep"), ("/shop/purchases/%00", "400 malformed-request keep"),
        ("/shop/purchases/%zz", "400 malformed-request keep"),
        ("/shop/purchases/0-XYZ", "404 unknown-submission retry"),
        ("/shop/purchases/0-00000000000000000000000000000000", "404 unknown-submission retry"),
        ("/shop/wallet", "400 malformed-request keep"), ("/shop/wallet?userId=", "400 malformed-request keep"),
        ("/shop/wallet?userId=a%2Fb", "400 malformed-request keep"),
        ("/shop/wallet?userId=" + String(repeating: "u", count: 10_240), "400 malformed-request keep"),
        ("/shop/wallet?userId=a&userId=b", "400 malformed-request keep"),
        ("/shop/history?userId=a&limit=0", "400 malformed-request keep"),
        ("/shop/history?userId=a&limit=101", "400 malformed-request keep"),
        ("/shop/history?userId=a&limit=x", "400 malformed-request keep"),
        ("/shop/history?userId=a&limit=99999999999999999999", "400 malformed-request keep"),
        ("/shop/history?userId=a&cursor=0", "400 malformed-request keep"),
        ("/shop/history?userId=a&cursor=-1", "400 malformed-request keep"),
        ("/shop/history?userId=a&cursor=%00", "400 malformed-request keep"),
    ])
    func pathsAndQueriesAreChecked(path: String, expected: String) async throws {
        try await Shop.run { shop in
            let answer = try await shop.get(path)
            #expect(answer.summary == expected)
        }
    }

    @Test func halfARequestChangesNothing() async throws {
        try await Shop.run { shop in
            let whole = Sender.request(Shop.order(), wait: 0)
            let before = try await shop.snapshot()
            for share in [10, 60, 180, whole.utf8.count - 1] {
                let sender = try Sender(port: shop.port)
                sender.send(String(decoding: whole.utf8.prefix(share), as: UTF8.self))
                sender.close()
            }
            // The server still answers, and it answers after it saw those.
            #expect(try await shop.post("{}").status == 400)
            #expect(try await shop.snapshot() == before)
        }
    }
}
