import Foundation
import ServiceRuntime
import Testing

/// Goal: our parser accepts and refuses exactly what Foundation does, and reads the same values.
///
/// Method: change good documents at random (from a fixed seed), give them to both, and compare what Foundation read
/// with what it reads from our rendering of what we read. Foundation takes duplicate keys, NUL and numbers of any size.
@Suite struct JSONParserTests {
    private static let seeds = [
        #"{"id":"x","keys":[{"id":1},{"id":-2.5e3},{"id":true,"z":null,"é":false}],"":{"deep":[[3.5]]}}"#,
        #"["\ud83d\ude00","\u00e4\n\"\\\/","äöü€😀",0,-0,1e-3,123456789012,-123456789012]"#,
        #"  { "a" : [ ] , "b" : { } , "c" : "12345678" , "d" : 1.0E+2 }  "#,
        #"{"kind":"productPurchase","purchaseTimeMillis":"1796018745123","purchaseState":0,"quantity":1}"#,
        #""just a string""#, "12", "[1,[2,[3,[4,[5]]]]]",
    ]
    private static let alphabet: [UInt8] =
        Array(#"{}[]":,\/ubn0123456789.eE+-truefalsn "#.utf8)
        + [
            0x00, 0x09, 0x0a, 0x0b, 0x0c, 0x1f, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xa4, 0xed, 0xa0, 0xf0, 0x9f, 0xf4, 0x90,
            0xff,
        ]

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

    private func foundation(_ bytes: [UInt8]) -> NSObject? {
        (try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)) as? NSObject
    }

    private static let onlyOurs = [
        "has a duplicate key", "has a NUL character in a string", "has a number that is out of range",
    ]

    @Test(arguments: 0..<10 as Range<UInt64>)
    func agreesWithFoundation(_ seed: UInt64) throws {
        var random = Random(state: seed)
        var accepted = 0
        for _ in 0..<1_000 {
            let bytes = mutated(Self.seeds.randomElement(using: &random) ?? "", &random)
            let text = String(decoding: bytes, as: UTF8.self)
            let expected = foundation(bytes)
            do {
                let view = try JSONView.parse(bytes)
                accepted += 1
                #expect(expected != nil, "only we accept \(text)")
                #expect(expected == foundation(Array(view.serialized().utf8)), "\(text)")
            } catch let error where Self.onlyOurs.contains(error.reason) {
                continue
            } catch {
                // Foundation guesses UTF-16 where it sees a NUL, and lets a comma end an object.
                let isLenient = bytes.contains(0) || text.contains(#/,\s*}/#)
                #expect(expected == nil || isLenient, "\(error), only we refuse \(text)")
            }
        }
        #expect((200..<900).contains(accepted), "the changes must make good and bad documents")
    }
}
