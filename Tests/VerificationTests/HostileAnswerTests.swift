import Commerce
import HTTP
import ServiceRuntime
import Testing

@testable import Verification

/// Whatever comes back from "the store", in a thousand shapes: no crash, no credit, no refusal.
@LoopActor
@Suite struct HostileAnswerTests {
    nonisolated static let bodies: [String] = [
        "", " ", "null", "true", "0", "\"ok\"", "[]", "[{}]", "{}", "{", "}", "<html><body>502</body></html>",
        #"{"status":0}"#, #"{"signedTransactionInfo":null}"#, #"{"signedTransactionInfo":7}"#,
        #"{"signedTransactionInfo":"a.b.c"}"#, #"{"signedTransactionInfo":"...."}"#, #"{"signedTransactionInfo":""}"#,
        #"{"purchaseState":0,"purchaseState":0}"#, #"{"purchaseState":1e400}"#, #"{"purchaseState":0.0}"#,
        #"{"purchaseState":99999999999999999999}"#, #"{"purchaseState":"0x0"}"#, #"{"purchaseState":"+0"}"#,
        #"{"purchaseState":" 0"}"#, #"{"purchaseState":[]}"#, #"{"purchaseState":{}}"#, #"{"purchaseState":""}"#,
        #"{"purchaseState":0,"quantity":-2147483648}"#, #"{"purchaseState":0,"quantity":"9223372036854775808"}"#,
        #"{"purchaseState":0,"quantity":1e400}"#, #"{"purchaseState":0,"productId":7}"#,
        #"{"purchaseState":0,"purchaseToken":{}}"#, #"{"purchaseState":0,"obfuscatedExternalAccountId":[]}"#,
        #"{"purchaseState":0,"purchaseTimeMillis":"yesterday"}"#, "{\"purchaseState\":0,\"x\":\"\u{FFFF}\"",
        #"{"purchaseState":0,"orderId":"\ud800"}"#, #"{"purchaseState":0} trailing"#,
        "{\"a\":" + String(repeating: "{\"a\":", count: 10_000),
        "{\"purchaseState\":0,\"x\":" + String(repeating: "[", count: 400) + String(repeating: "]", count: 400) + "}",
    ]

    private func verdicts(_ answer: HTTPAnswer) async throws -> [Verdict] {
        let late = VerificationAttempt(number: 2, age: .seconds(1))
        var verdicts: [Verdict] = []
        for receipt in [PlayPurchase.token, try Payload().signed(), AppleReceiptVerifierTests.receipt] {
            let store: Store = receipt == PlayPurchase.token ? .googlePlay : .appStore
            let verifier = try World.verifier(CannedStore(answers: answer)) {
                // Reading an RSA key costs more than the rest of the test.
                $0.google?.credentials = .accessToken(Secret("fixed"))
            }
            verdicts.append(
                await verifier.verify(
                    try World.submission(receipt, store: store), catalogue: try World.catalogue(), attempt: late))
        }
        return verdicts
    }

    @Test(arguments: bodies)
    func answerThatIsNoneLeavesThePurchaseOpen(body: String) async throws {
        let names = ["google", "transaction", "app receipt"]
        for (name, verdict) in zip(names, try await verdicts(.json(200, body))) {
            // A receipt without app is another app's: that is the one thing `{"status":0}` does say.
            if name == "app receipt", body == #"{"status":0}"# {
                #expect(verdict.summary == "rejected wrong-app")
            } else {
                #expect(verdict.summary.hasPrefix("open "), "\(name)")
            }
        }
    }

    @Test(arguments: [400, 401, 403, 404, 405, 409, 410, 418, 429, 500, 502, 503, 504])
    func errorPageOfAProxyLeavesThePurchaseOpen(status: Int) async throws {
        for body in ["", "<html>no</html>", "{}", "[]", #"{"error":"x"}"#, #"{"errorCode":"x"}"#, "{"] {
            for verdict in try await verdicts(.json(status, body)) {
                #expect(verdict.summary.hasPrefix("open "), "\(status) \(body)")
            }
        }
    }

    @Test func bytesThatAreNotTextLeaveThePurchaseOpen() async throws {
        for bytes in [[0xFF, 0xFE, 0x00], [0x1F, 0x8B, 0x08, 0x00], Array(repeating: 0x00, count: 1 << 20)] as [[UInt8]]
        {
            for verdict in try await verdicts(HTTPAnswer(status: 200, body: bytes)) {
                #expect(verdict.summary == "open store-unavailable")
            }
        }
    }

    @Test(arguments: [
        HTTPClientError.Kind.resolve, .connect, .tls, .timeout, .connectionLost, .truncated, .answerTooLarge,
        .badAnswer,
        .invalidRequest, .stopped, .cancelled, .other(code: 99),
    ])
    func networkTroubleLeavesThePurchaseOpen(kind: HTTPClientError.Kind) async throws {
        for receipt in [PlayPurchase.token, try Payload().signed(), AppleReceiptVerifierTests.receipt] {
            let store: Store = receipt == PlayPurchase.token ? .googlePlay : .appStore
            let canned = CannedStore { _ throws(HTTPClientError) in throw HTTPClientError(kind) }
            let late = VerificationAttempt(number: 999, age: .seconds(999_999))
            let verdict = try await World.verifier(canned).verify(
                try World.submission(receipt, store: store), catalogue: try World.catalogue(), attempt: late)
            #expect(verdict.summary == "open store-unavailable")
        }
    }
}
