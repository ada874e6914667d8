import Commerce
import ServiceRuntime
import Signing
import Testing

@Suite struct ReceiptSubmissionTests {
    static func parse(_ text: String) throws -> ReceiptSubmission {
        try ReceiptSubmission(json: try JSONView.parse(text, depthMax: Limits.bodyDepthMax))
    }

    static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// The published vectors; the digests were computed with another implementation of SHA-256.
    static let vectors = [
        (
            #"{"userId":"player-42","productId":"gems_pack_medium","receiptData":"\#(ReceiptTests.jws)"}"#,
            "00000009706c617965722d3432000000056170706c650000001067656d735f7061636b5f6d656469756d0000002465794a68624763694f"
                + "694a46557a49314e694a392e65794a30496a6f7866512e63326c6e",
            "0-e3044580ab233ab3292ecd380b2710e8"
        ),
        (
            #"{"userId":"player-42","storeProductId":"gems_500","receiptData":"\#(ReceiptTests.token)"}"#,
            "00000009706c617965722d343200000006676f6f676c6500000000000000256161616162626262636363636464646465656565666666"
                + "662e414f2d4a314f6d61646575700000000867656d735f35303000000000",
            "0-625a8a0fe7e106a70187da16fd572f97"
        ),
    ]

    @Test(arguments: vectors.indices)
    func canonicalBytesAndIDArePinned(_ index: Int) throws {
        let (json, bytes, id) = Self.vectors[index]
        let submission = try Self.parse(json)
        #expect(Self.hex(submission.canonicalBytes) == bytes)
        #expect(SubmissionID(digest: Digest.sha256(submission.canonicalBytes)).rawValue == id)
    }

    @Test func playsJSONIsTheBareTokenWithItsProduct() throws {
        let bare = try Self.parse(
            #"{"userId":"u","productId":"gems_pack_medium","storeProductId":"gems_500","#
                + #""platform":"android","receiptData":"\#(ReceiptTests.token)"}"#
        )
        let json = try Self.parse(
            #"{"receiptData":"{\"productId\":\"gems_500\",\"purchaseToken\":\"\#(ReceiptTests.token)\"}","userId":"u","#
                + #""productId":"gems_pack_medium"}"#)
        #expect(bare.canonicalBytes == json.canonicalBytes)
        #expect(json.storeProductHint?.rawValue == "gems_500")
    }

    @Test(arguments: ["storeProductId", "accountToken"]) func aCorrectedRequestIsAnotherSubmission(_ field: String)
        throws
    {
        let receipt = #""receiptData":"\#(ReceiptTests.token)""#
        let submissions = try ["", #""\#(field)":"wrong","#, #""\#(field)":"right","#].map {
            try Self.parse(#"{"userId":"u","productId":"p",\#($0)\#(receipt)}"#).canonicalBytes
        }
        #expect(Set(submissions).count == 3)
    }

    @Test func shiftingBytesBetweenFieldsChangesTheCanonicalBytes() throws {
        let left = try Self.parse(#"{"userId":"ab","productId":"c","receiptData":"\#(ReceiptTests.jws)"}"#)
        let right = try Self.parse(#"{"userId":"a","productId":"bc","receiptData":"\#(ReceiptTests.jws)"}"#)
        #expect(left.canonicalBytes != right.canonicalBytes)
    }

    @Test(arguments: [
        #"{"userId":"u","receiptData":"\#(ReceiptTests.jws)"}"#,
        #"{"userId":"u","productId":"p","platform":"ios","store":"apple","receiptData":"\#(ReceiptTests.jws)"}"#,
        #"{"userId":"u","productId":"p","accountToken":"a+/=~","receiptData":"\#(ReceiptTests.token)"}"#,
        #"{"userId":"u","storeProductId":"p","store":"google","receiptData":"\#(ReceiptTests.token)"}"#,
        #"{"userId":"u","productId":null,"accountToken":null,"receiptData":"\#(ReceiptTests.jws)"}"#,
    ])
    func jobsReadBackAsTheSameSubmission(_ json: String) throws {
        let submission = try Self.parse(json)
        let again = try ReceiptSubmission(json: try JSONView.parse(submission.jobJSON))
        #expect(again == submission)
        #expect(again.canonicalBytes == submission.canonicalBytes)
    }

    static let good = #"{"userId":"u","productId":"p","receiptData":"\#(ReceiptTests.token)"}"#
    static let mistakes: [(json: String, path: String, reason: String)] = [
        ("[]", "", "must be an object"),
        ("\"x\"", "", "must be an object"),
        (#"{"productId":"p","receiptData":"x"}"#, "userId", "is missing"),
        (good.replacing("\"u\"", with: "7"), "userId", "must be a string"),
        (good.replacing("\"u\"", with: "\"\""), "userId", "is empty"),
        (good.replacing("\"u\"", with: "\"../u\""), "userId", "may contain only"),
        (good.replacing("\"u\"", with: "\"\(String(repeating: "u", count: 10_240))\""), "userId", "longer than 128"),
        (good.replacing("\"p\"", with: "\"p/\""), "productId", "may contain only"),
        (good.replacing("\"p\"", with: "{}"), "productId", "must be a string"),
        (
            good.replacing("\"productId\":\"p\",", with: ""), "productId",
            "or storeProductId is needed with a bare purchase token"
        ),
        (#"{"userId":"u","productId":"p"}"#, "receiptData", "is missing"),
        (#"{"userId":"u","productId":"p","receiptData":""}"#, "receiptData", "is empty"),
        (#"{"userId":"u","productId":"p","receiptData":["x"]}"#, "receiptData", "must be a string"),
        (#"{"userId":"u","productId":"p","receiptData":"nonsense"}"#, "receiptData", "is no receipt"),
        (good.replacing("\"p\"", with: "\"p\",\"platform\":\"web\""), "platform", "must be ios or android"),
        (good.replacing("\"p\"", with: "\"p\",\"platform\":\"ios\""), "receiptData", "is neither"),
        (good.replacing("\"p\"", with: "\"p\",\"store\":\"amazon\""), "store", "must be apple or google"),
        (
            good.replacing("\"p\"", with: "\"p\",\"platform\":\"ios\",\"store\":\"google\""), "store",
            "contradicts platform"
        ),
        (good.replacing("\"p\"", with: "\"p\",\"acountToken\":\"x\""), "acountToken", "is not a known field"),
        (good.replacing("\"p\"", with: "\"p\",\"accountToken\":\"\""), "accountToken", "is empty"),
        (good.replacing("\"p\"", with: "\"p\",\"accountToken\":\"a b\""), "accountToken", "printable ASCII"),
        (
            good.replacing("\"p\"", with: "\"p\",\"accountToken\":\"\(String(repeating: "a", count: 65))\""),
            "accountToken", ""
        ),
        (good.replacing("\"p\"", with: "\"p\",\"storeProductId\":\"\""), "storeProductId", "is empty"),
        (
            #"{"userId":"u","receiptData":"\#("MI" + String(repeating: "A", count: Limits.appReceiptBytesMax))"}"#,
            "receiptData", ""
        ),
    ]

    @Test(arguments: mistakes.indices)
    func mistakesNameTheField(_ index: Int) throws {
        let (json, path, reason) = Self.mistakes[index]
        let error = #expect(throws: JSONError.self) { try Self.parse(json) }
        #expect(error?.path == path)
        #expect(error?.reason.contains(reason) == true, "\(error?.reason ?? "")")
    }

    @Test func mistakesNeverQuoteTheReceipt() {
        let secret = "s3cret-s3cret-s3cret/"
        let error = #expect(throws: JSONError.self) {
            try Self.parse(#"{"userId":"u","productId":"p","receiptData":"\#(secret)"}"#)
        }
        #expect(error.map { !"\($0)".contains("s3cret") } == true)
    }
}
