import Signing
import Testing

@Suite struct Base64Tests {
    /// RFC 4648 §10.
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func vectorsOfTheStandard(text: String, encoded: String) {
        #expect(Base64.encode(Array(text.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(text.utf8))
        let unpadded = encoded.filter { $0 != "=" }
        #expect(Base64URL.encode(Array(text.utf8)) == unpadded)
        #expect(Base64URL.decode(unpadded) == Array(text.utf8))
    }

    @Test func everyLengthAndByteSurvivesARoundTrip() {
        for count in 0..<300 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ count) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
        }
    }

    @Test func theAlphabetsDifferInTheirLastTwoSymbols() {
        #expect(Base64.encode([0xFB, 0xFF]) == "+/8=")
        #expect(Base64URL.encode([0xFB, 0xFF]) == "-_8")
    }

    @Test(arguments: [
        "Zg", "Zg=", "Zg===", "Z===", "====", "=", "Zm8", "Zm9vYg=", " Zg==", "Zg==\n", "Zm 9v", "Zm9-", "Zm9_", "Zh==",
        "Zm9=", "Zg==Zg==", "Zm9vé",
    ])
    func standardTextWithAnythingUnusualIsRefused(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test(arguments: ["Z", "Zg==", "Zm8=", "Zh", "Zm9", "Zm9+", "Zm9/", "Zm9v\n", " Zm9v", "Zm9v.", "Zm9vZ"])
    func urlTextWithAnythingUnusualIsRefused(text: String) {
        #expect(Base64URL.decode(text) == nil)
    }
}
