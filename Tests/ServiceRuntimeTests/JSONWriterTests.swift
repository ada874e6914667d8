import ServiceRuntime
import Testing

@Suite struct JSONWriterTests {
    @Test func writesEveryKindOfMemberAndElement() {
        var writer = JSONWriter()
        let absent: String? = nil
        let present: Int64? = 7
        writer.object { writer in
            writer.member("text", "a\"b")
            writer.member("absent", absent)
            writer.member("present", present)
            writer.member("count", 3)
            writer.member("big", Int64.min)
            writer.member("yes", true)
            writer.member("half", 0.5)
            writer.member("nan", Double.nan)
            writer.member(null: "null")
            writer.member("object", object: { $0.member("inner", 1) })
            writer.member("empty", object: { _ in })
            writer.member("array", array: { _ in })
            writer.member("raw", raw: "[1]")
            writer.member("rawBytes", raw: Array("{}".utf8))
            writer.member(dynamic: "dyn\n", "x")
            writer.member(dynamic: "list", array: { $0.element(1) })
            writer.member(dynamic: "tree", object: { $0.member("leaf", false) })
        }
        #expect(
            writer.text == #"""
                {"text":"a\"b","present":7,"count":3,"big":-9223372036854775808,"yes":true,"half":0.5,"nan":null,"null":null,"object":{"inner":1},"empty":{},"array":[],"raw":[1],"rawBytes":{},"dyn\n":"x","list":[1],"tree":{"leaf":false}}
                """#)
    }

    @Test func separatesElementsOfNestedArrays() {
        var writer = JSONWriter()
        writer.array { writer in
            writer.element("a")
            writer.array { writer in
                writer.element(1)
                writer.element(2)
            }
            writer.object { $0.member("k", true) }
            writer.null()
            writer.element(raw: "0.10")
        }
        #expect(writer.text == #"["a",[1,2],{"k":true},null,0.10]"#)
    }

    @Test(arguments: [Int64.min, -1_000_000_000_000, -10, -1, 0, 1, 9, 10, 99, 100, 1_764_482_745_123, .max])
    func integersReadBackEqual(_ value: Int64) throws {
        var writer = JSONWriter()
        writer.element(value)
        #expect(writer.text == String(value))
    }

    @Test(arguments: [0.0, -0.5, 0.1, 1e300, .leastNonzeroMagnitude, 1e16, 123456789.25, -1.7976931348623157e308])
    func doublesReadBackEqual(_ value: Double) throws {
        var writer = JSONWriter()
        writer.element(value)
        #expect(try JSONView.parse(writer.bytes).double() == value)
    }

    @Test func everyCharacterReadsBackEqual() throws {
        var text = "\u{7f}\u{80}\u{2028}\u{feff}\u{10ffff}👩‍👩‍👧e\u{301}"
        for value in 1..<UInt8(128) { text.unicodeScalars.append(Unicode.Scalar(value)) }
        for length in 0..<80 {
            let value = String(repeating: "x", count: length) + text
            var writer = JSONWriter()
            writer.element(value)
            #expect(try JSONView.parse(writer.bytes).string() == value)
        }
    }

    @Test func noControlCharacterIsWrittenAsItself() {
        for value in 0..<UInt8(0x20) {
            var writer = JSONWriter()
            writer.element(String(Unicode.Scalar(value)))
            #expect(writer.bytes.allSatisfy { $0 >= 0x20 }, "U+\(String(value, radix: 16))")
        }
    }

    @Test func errorsOfTheBodyPassThrough() {
        struct Stop: Error {}
        var writer = JSONWriter()
        #expect(throws: Stop.self) { try writer.object { _ in throw Stop() } }
    }

    @Test func isReusable() {
        var writer = JSONWriter()
        writer.array { $0.element(1) }
        writer.removeAll()
        writer.array { $0.element(2) }
        #expect(writer.text == "[2]")
    }
}
