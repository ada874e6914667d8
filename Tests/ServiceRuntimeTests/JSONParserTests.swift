import CJansson
import ServiceRuntime
import Testing

/// Goal: our parser accepts and refuses exactly what jansson does, and reads the same values.
///
/// Method: change good documents at random (from a fixed seed), give them to both, and compare what jansson read with
/// what it reads from our rendering of what we read.
@Suite struct JSONParserTests {
    private static let seeds = [
        #"{"id":"x","keys":[{"id":1},{"id":-2.5e3},{"id":true,"z":null,"é":false}],"":{"deep":[[3.5]]}}"#,
        #"["\ud83d\ude00","\u00e4\n\"\\\/","äöü€😀",0,-0,1e-3,9223372036854775807,-9223372036854775808]"#,
        #"  { "a" : [ ] , "b" : { } , "c" : "12345678" , "d" : 1.0E+2 }  "#,
        #"{"kind":"productPurchase","purchaseTimeMillis":"1796018745123","purchaseState":0,"quantity":1}"#,
        #""just a string""#, "12", "[1,[2,[3,[4,[5]]]]]",
    ]
    private static let alphabet: [UInt8] =
        Array(#"{}[]":,\/ubn0123456789.eE+-truefalsn "#.utf8)
        + [0x00, 0x09, 0x0a, 0x1f, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xa4, 0xed, 0xa0, 0xf0, 0x9f, 0xf4, 0x90, 0xff]

    /// SplitMix64, so that a failure can be repeated.
    private struct Random: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var value = state
            value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
            value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
            return value ^ (value >> 31)
        }
    }

    private func mutated(_ seed: String, _ random: inout Random) -> [UInt8] {
        var bytes = Array(seed.utf8)
        for _ in 0..<Int.random(in: 0...3, using: &random) where !bytes.isEmpty {
            let position = Int.random(in: 0..<bytes.count, using: &random)
            let byte = Self.alphabet.randomElement(using: &random) ?? 0
            switch Int.random(in: 0..<4, using: &random) {
            case 0: bytes[position] = byte
            case 1: bytes.insert(byte, at: position)
            case 2: bytes.remove(at: position)
            default:
                // Copies make duplicate keys.
                let end = min(bytes.count, position + Int.random(in: 1...12, using: &random))
                bytes.insert(contentsOf: bytes[position..<end], at: position)
            }
        }
        return bytes
    }

    private func jansson(_ bytes: [UInt8]) -> UnsafeMutablePointer<json_t>? {
        bytes.withUnsafeBytes { buffer in
            let start = buffer.bindMemory(to: CChar.self).baseAddress
            return start.flatMap { json_loadb($0, buffer.count, Int(JSON_REJECT_DUPLICATES | JSON_DECODE_ANY), nil) }
        }
    }

    @Test(arguments: 0..<10 as Range<UInt64>)
    func agreesWithJansson(_ seed: UInt64) throws {
        var random = Random(state: seed)
        var accepted = 0
        for _ in 0..<1_000 {
            let bytes = mutated(Self.seeds.randomElement(using: &random) ?? "", &random)
            let expected = jansson(bytes)
            defer { expected.map { json_decref($0) } }
            let view = try? JSONView.parse(bytes)
            // jansson 2.14 swallows a NUL after a number; nobody may.
            guard !bytes.contains(0) else {
                #expect(view == nil)
                continue
            }
            guard (view != nil) == (expected != nil) else {
                Issue.record("only one of us accepts \(String(decoding: bytes, as: UTF8.self))")
                continue
            }
            guard let view else { continue }
            accepted += 1
            let again = jansson(Array(view.serialized().utf8))
            defer { again.map { json_decref($0) } }
            #expect(json_equal(expected, again) == 1, "\(String(decoding: bytes, as: UTF8.self))")
        }
        #expect((200..<900).contains(accepted), "the changes must make good and bad documents")
    }
}
