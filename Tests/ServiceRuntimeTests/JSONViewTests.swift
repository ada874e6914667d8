import ServiceRuntime
import Testing

@Suite struct JSONViewTests {
    struct Refused: Sendable, CustomTestStringConvertible {
        let json: [UInt8]
        let reason: String
        let line: Int
        let column: Int

        init(_ json: String, _ reason: String, line: Int = 1, column: Int) {
            self.init(Array(json.utf8), reason, line: line, column: column)
        }

        init(_ json: [UInt8], _ reason: String, line: Int = 1, column: Int) {
            (self.json, self.reason, self.line, self.column) = (json, reason, line, column)
        }

        var testDescription: String { String(decoding: json.prefix(40), as: UTF8.self) + " " + reason }
    }

    @Test(arguments: [
        Refused("", "is empty", column: 1),
        Refused("   ", "ends too early", column: 4),
        Refused("{\"secret\":1,\"secret\":2}", "has a duplicate key", column: 13),
        Refused("{\"a\":{\"secret\":1,\"secret\":2}}", "has a duplicate key", column: 18),
        Refused(#"{"a":1,"\u0061":2}"#, "has a duplicate key", column: 8),
        Refused(#"["secret\u0000"]"#, "has a NUL character in a string", column: 9),
        Refused(#"{"secret\u0000":1}"#, "has a NUL character in a string", column: 9),
        Refused("[\"secret\0\"]", "is not valid JSON", column: 9),
        Refused("[1\0]", "is not valid JSON", column: 3),
        Refused("[1]\0", "has text after its end", column: 4),
        Refused(Array("[\"".utf8) + [0xff] + Array("\"]".utf8), "is not valid UTF-8", column: 3),
        Refused(Array("[\"".utf8) + [0xc0, 0xaf] + Array("\"]".utf8), "is not valid UTF-8", column: 3),
        Refused(Array("[\"".utf8) + [0xed, 0xa0, 0x80] + Array("\"]".utf8), "is not valid UTF-8", column: 3),
        Refused([0xef, 0xbb, 0xbf] + Array("{}".utf8), "is not valid JSON", column: 1),
        Refused("{} x", "has text after its end", column: 4),
        Refused("{}{}", "has text after its end", column: 3),
        Refused("[1e400]", "has a number that is out of range", column: 2),
        Refused("[-1e400]", "has a number that is out of range", column: 2),
        Refused("[9223372036854775808]", "has a number that is out of range", column: 2),
        Refused("[NaN]", "is not valid JSON", column: 2),
        Refused("[Infinity]", "is not valid JSON", column: 2),
        Refused("[01]", "is not valid JSON", column: 3),
        Refused("[.5]", "is not valid JSON", column: 2),
        Refused("[+1]", "is not valid JSON", column: 2),
        Refused("[1,]", "is not valid JSON", column: 4),
        Refused("{\"a\":1,}", "is not valid JSON", column: 8),
        Refused("{'a':1}", "is not valid JSON", column: 2),
        Refused("{a:1}", "is not valid JSON", column: 2),
        Refused("[1] // no", "has text after its end", column: 5),
        Refused("{\"a\":", "ends too early", column: 6),
        Refused("[\"secret", "ends too early", column: 9),
        Refused("[\"a\nb\"]", "is not valid JSON", line: 1, column: 4),
        Refused(#"["\ud800"]"#, "is not valid JSON", column: 3),
        Refused(#"["\udc00"]"#, "is not valid JSON", column: 3),
        Refused(#"["\ud800\u0041"]"#, "is not valid JSON", column: 3),
        Refused(#"["\u00g0"]"#, "is not valid JSON", column: 7),
        Refused("tru", "ends too early", column: 4),
        Refused("[1.]", "is not valid JSON", column: 4),
        Refused("[1e]", "is not valid JSON", column: 4),
        Refused("-", "ends too early", column: 2),
        Refused(#"["\x"]"#, "is not valid JSON", column: 4),
        Refused("{\n  \"ä\": 1,\n  \"b\" 2\n}", "is not valid JSON", line: 3, column: 7),
        Refused("[1\u{b},2]", "is not valid JSON", column: 3),
        Refused("[1,\u{c}2]", "is not valid JSON", column: 4),
        Refused(#"["\ud800x"]"#, "is not valid JSON", column: 3),
        Refused(#"["\n\ud83d\n"]"#, "is not valid JSON", column: 5),
        Refused(#"{"\ude00":1}"#, "is not valid JSON", column: 3),
        Refused(#"["\\\u0000"]"#, "has a NUL character in a string", column: 5),
        Refused("[\"a\" , \"b\\\"\" \"c\"]", "is not valid JSON", column: 14),
        Refused("{\"a\" \"b\"}", "is not valid JSON", column: 6),
        Refused("{\"a\":1 \"b\":2}", "is not valid JSON", column: 8),
        Refused("[1,,2]", "is not valid JSON", column: 4),
        Refused("[1 , /2]", "is not valid JSON", column: 6),
        Refused("{\"a\":,}", "is not valid JSON", column: 6),
        Refused("{\"a\"::1}", "is not valid JSON", column: 6),
        Refused("[trux]", "is not valid JSON", column: 5),
        Refused("[truet]", "is not valid JSON", column: 7),
        Refused("[}", "is not valid JSON", column: 2),
        Refused("[1]]", "has text after its end", column: 4),
        Refused("1 \"\\x\"", "has text after its end", column: 3),
        Refused("{} \"", "has text after its end", column: 4),
        Refused("1\"a", "has text after its end", column: 2),
        Refused("1 2", "has text after its end", column: 3),
        Refused("1 tru", "has text after its end", column: 3),
        Refused("1e400", "has a number that is out of range", column: 1),
        Refused("[7,1e400", "has a number that is out of range", column: 4),
        Refused("[7,1", "ends too early", column: 5),
        Refused(#"["\u12"#, "ends too early", column: 7),
    ])
    func refusesWhatIsNotStrictJSON(_ refused: Refused) {
        let error = #expect(throws: JSONError.self) { try JSONView.parse(refused.json) }
        #expect(error?.reason == refused.reason)
        #expect(error?.line == refused.line)
        #expect(error?.column == refused.column)
        #expect(error?.path == "")
        #expect(error?.description.contains("secret") == false)
    }

    @Test(arguments: [1, 2, 32, 100])
    func nestingStopsAtTheLimit(_ depthMax: Int) throws {
        let open = String(repeating: "[", count: depthMax)
        let close = String(repeating: "]", count: depthMax)
        _ = try JSONView.parse(open + close, depthMax: depthMax)
        let error = #expect(throws: JSONError.self) {
            try JSONView.parse("\n [" + open + close + "]", depthMax: depthMax)
        }
        #expect(
            error
                == JSONError(
                    reason: "is nested deeper than \(depthMax) levels", line: 2, column: depthMax + 2))
    }

    @Test func objectsCountAsLevelsToo() {
        #expect(throws: JSONError.self) { try JSONView.parse(#"{"a":[{"b":1}]}"#, depthMax: 2) }
    }

    @Test(arguments: [(1, 0), (24, 23), (25, 0), (25, 24), (26, 25), (100, 3), (20_000, 10_000)])
    func aDuplicateIsFoundAmongFewKeysAndMany(_ keys: Int, _ duplicate: Int) throws {
        let members = (0..<keys).map { "\"k\u{e9}\($0)\":[\($0)]" }
        let all = try JSONView.parse("{" + members.joined(separator: ",") + "}")
        #expect(try all.members().map(\.key) == (0..<keys).map { "k\u{e9}\($0)" })
        #expect(try all.elements("k\u{e9}\(duplicate)")[0].int64() == Int64(duplicate))
        let error = #expect(throws: JSONError.self) {
            try JSONView.parse("{" + members.joined(separator: ",") + ",\"\\u006b\u{e9}\(duplicate)\":0}")
        }
        #expect(error?.reason == "has a duplicate key")
    }

    @Test func keysThatOnlyLookEqualAreDifferent() throws {
        let view = try JSONView.parse("{\"\u{e9}\":1,\"e\u{301}\":2}")
        #expect(try view.int64("\u{e9}") == 1)
        #expect(try view.int64("e\u{301}") == 2)
    }

    @Test(arguments: [
        (#""\ud83d\ude00\u00e4\u0041""#, "😀äA"), (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (#""\uFFFF\uffff""#, "\u{ffff}\u{ffff}"), (#""1234567\n""#, "1234567\n"), (#""12345678\\""#, "12345678\\"),
    ])
    func decodesEscapes(_ json: String, _ text: String) throws {
        #expect(try JSONView.parse(json).string() == text)
        #expect(try JSONView.parse(json).utf8() == Array(text.utf8))
    }

    @Test func aMillionBracketsStopAtTheLimit() {
        let error = #expect(throws: JSONError.self) {
            try JSONView.parse([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000))
        }
        #expect(error?.column == 33)
    }

    @Test func bracketsSideBySideOrInStringsAreNotNesting() throws {
        let wide = "[" + Array(repeating: "{}", count: 100).joined(separator: ",") + #","[[[[\"{{{{\\"]"#
        #expect(try JSONView.parse(wide, depthMax: 2).count == 101)
    }

    @Test(arguments: [
        ("{}", JSONView.Kind.object), ("[]", .array), ("\"\"", .string), ("-0", .integer),
        ("9223372036854775807", .integer), ("1.0", .real), ("1e3", .real), ("true", .bool), (" false ", .bool),
        ("null", .null),
    ])
    func tellsTheKind(_ json: String, _ kind: JSONView.Kind) throws {
        #expect(try JSONView.parse(json).kind == kind)
        #expect(try JSONView.parse(json).isNull == (kind == .null))
    }

    private static let document = """
        {"id":"x","keys":[{"id":1},{"id":2},{"id":true,"z":null,"y":null}],"a b\\n":{"deep":[[3.5]]},"flag":true,"gone":null}
        """

    @Test func readsValues() throws {
        let view = try JSONView.parse(Self.document)
        #expect(try view.string("id") == "x")
        #expect(try view.required("id").utf8() == [0x78])
        #expect(try view.elements("keys").map { try $0.required("id").kind } == [.integer, .integer, .bool])
        #expect(try view.elements("keys")[1].int64("id") == 2)
        #expect(try view.required("a b\n").required("deep").elements()[0].elements()[0].double() == 3.5)
        #expect(try view.bool("flag"))
        #expect(try view.members().map(\.key) == ["id", "keys", "a b\n", "flag", "gone"])
        #expect(view.unknownKeys(besides: ["keys", "id", "flag"]) == ["a b\n", "gone"])
        #expect(view.count == 5)
    }

    @Test func tellsTheLineOfAMember() throws {
        let view = try JSONView.parse("\n{\"a\":\"x\\n\",\n \"b\":{\n\"c\":\n1}, \"d\\u0065\":2, \"é\":3}")
        #expect(view.line(of: "a") == 2)
        #expect(view.line(of: "b") == 3)
        #expect(view["b"]?.line(of: "c") == 4)
        #expect(view.line(of: "é") == 5)
        // Decoded text has no place in the document.
        #expect(view["de"] != nil && view.line(of: "de") == nil)
        #expect(view.line(of: "c") == nil && view["b"]?["c"]?.line(of: "c") == nil)
    }

    @Test func absentAndNullAreBothNilForOptionalMembers() throws {
        let view = try JSONView.parse(Self.document)
        for key in ["gone", "absent"] {
            #expect(try view.optionalString(key) == nil)
            #expect(try view.optionalInt64(key) == nil)
            #expect(try view.optionalDouble(key) == nil)
            #expect(try view.optionalBool(key) == nil)
            #expect(try view.optionalObject(key) == nil)
            #expect(try view.optionalElements(key) == nil)
        }
        #expect(view["gone"]?.isNull == true)
        #expect(view["absent"] == nil)
        #expect(try view.required("keys")["id"] == nil)
    }

    struct WrongShape: Sendable {
        let description: String
        let read: @Sendable (JSONView) throws -> Void
    }

    @Test(arguments: [
        WrongShape(description: "document: must be an array") { _ = try $0.elements() },
        WrongShape(description: "document: must be a string") { _ = try $0.string() },
        WrongShape(description: "id: must be an integer") { _ = try $0.int64("id") },
        WrongShape(description: "id: must be a number") { _ = try $0.double("id") },
        WrongShape(description: "id: must be true or false") { _ = try $0.bool("id") },
        WrongShape(description: "id: must be an object") { _ = try $0.required("id").optionalString("x") },
        WrongShape(description: "id: must be an object") { _ = try $0.required("id").string("x") },
        WrongShape(description: "id: must be at most 0 bytes long") { _ = try $0.string("id", maxBytes: 0) },
        WrongShape(description: "nothing: is missing") { _ = try $0.string("nothing") },
        WrongShape(description: "gone: must be a string") { _ = try $0.string("gone") },
        WrongShape(description: "keys[2].nothing: is missing") { _ = try $0.elements("keys")[2].int64("nothing") },
        WrongShape(description: "keys[2].id: must be an integer") { _ = try $0.elements("keys")[2].int64("id") },
        WrongShape(description: "keys[2].y: must be a string") { _ = try $0.elements("keys")[2].string("y") },
        WrongShape(description: "keys[1].id: must be an integer from 3 to 9") {
            _ = try $0.elements("keys")[1].int64("id", in: 3...9)
        },
        WrongShape(description: "a?b?.deep[0][0]: must be an integer") {
            _ = try $0.required("a b\n").required("deep").elements()[0].elements()[0].int64()
        },
        WrongShape(description: "keys[0]: is unlucky") { throw try $0.elements("keys")[0].error("is unlucky") },
    ])
    func namesThePathOfAFieldWithTheWrongShape(_ shape: WrongShape) throws {
        let view = try JSONView.parse(Self.document)
        let error = #expect(throws: JSONError.self) { try shape.read(view) }
        #expect(error?.description == shape.description)
    }

    @Test func aHostileKeyMakesAShortPath() throws {
        let key = String(repeating: "k", count: 10_000)
        let error = #expect(throws: JSONError.self) { try JSONView.parse("{\"\(key)\":1}").string(key) }
        #expect((error?.path.utf8.count ?? 0) < 100)
    }

    @Test func aViewOutlivesTheVariableThatHeldTheDocument() throws {
        func inner() throws -> JSONView {
            try JSONView.parse(Self.document).elements("keys")[2]
        }
        let view = try inner()
        #expect(try view.bool("id"))
        #expect(view.path == "keys[2]")
    }

    @Test(arguments: [
        #"{"b":1,"a":[true,false,null,-5,0.1,1e+16,"ä\"\\\n\u0001/"],"c":{}}"#, "[]", "\"x\"", "9223372036854775807",
    ])
    func serializesCompactlyInTheOrderOfTheDocument(_ json: String) throws {
        #expect(try JSONView.parse(json).serialized() == json)
    }
}
