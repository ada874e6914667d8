import Signing
import Testing

@Suite struct DigestTests {
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ])
    func sha256MatchesTheStandardsVectors(text: String, digest: String) {
        #expect(Digest.hex(Digest.sha256(text)) == digest)
        #expect(Digest.hex(Digest.sha256(Array(text.utf8))) == digest)
    }

    @Test func sha1MatchesTheStandardsVector() {
        #expect(Digest.hex(Digest.sha1(Array("abc".utf8))) == "a9993e364706816aba3e25717850c26c9cd0d89d")
    }

    @Test(arguments: ["", "00ff10", "DEADbeef"])
    func hexadecimalIsReadInEitherCaseAndWrittenInLower(text: String) throws {
        #expect(Digest.hex(try #require(Digest.bytes(hex: text))) == text.lowercased())
    }

    @Test(arguments: ["0", "0g", "0x10", " 0", "é0"])
    func textThatIsNotHexadecimalIsRefused(text: String) {
        #expect(Digest.bytes(hex: text) == nil)
    }

    @Test(
        arguments: [
            ([], [], true), ([1, 2], [1, 2], true), ([1, 2], [1, 3], false), ([1, 2], [1], false), ([], [0], false),
        ] as [([UInt8], [UInt8], Bool)])
    func constantTimeComparisonAgreesWithEquality(a: [UInt8], b: [UInt8], isEqual: Bool) {
        #expect(constantTimeEquals(a, b) == isEqual)
    }

    /// The example of Python's `uuid` documentation and one of RFC 9562 Appendix A.4.
    @Test(arguments: [
        ("python.org", "886313e1-3b8a-5372-9b90-0c9aee199e5d"),
        ("www.example.com", "2ed6657d-e927-568b-95e1-2665a8aea6a2"),
    ])
    func nameBasedUUIDsMatchPublishedOnes(name: String, uuid: String) {
        #expect(UUIDv5.make(namespace: UUIDv5.dnsNamespace, name: name) == uuid)
    }

    @Test func uuidTextIsReadBackInEitherCase() {
        #expect(UUIDv5.bytes("6ba7b810-9dad-11d1-80b4-00c04fd430c8") == UUIDv5.dnsNamespace)
        #expect(UUIDv5.bytes("6BA7B810-9DAD-11D1-80B4-00C04FD430C8") == UUIDv5.dnsNamespace)
        for broken in ["", "6ba7b8109dad11d180b400c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430cg"] {
            #expect(UUIDv5.bytes(broken) == nil)
        }
    }
}
