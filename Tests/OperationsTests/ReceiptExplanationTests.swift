import Commerce
import ServiceRuntime
import Signing
import Testing

@testable import Operations

/// `teller verify`: every check, passed or failed and why, judged by the code that judges real receipts.
@Suite struct ReceiptExplanationTests {
    private static let now = UnixMilliseconds(1_793_000_060_000)
    private static let chain = Result { try MintedChain.make(around: now) }

    static func receipt(_ changes: [String: String] = [:], chain: MintedChain? = nil) throws -> String {
        var fields = [
            "transactionId": "\"2000001234500777\"", "bundleId": "\"com.mygame\"", "environment": "\"Production\"",
            "productId": "\"com.mygame.gems.500\"", "type": "\"Consumable\"", "purchaseDate": "1793000000000",
            "signedDate": "1793000000500", "quantity": "1",
        ]
        fields.merge(changes) { $1 }
        let json =
            "{" + fields.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
        return try (chain ?? Self.chain.get()).sign(Array(json.utf8))
    }

    private static func expectation(_ change: (inout ReceiptExplanation.Expectation) -> Void = { _ in }) throws
        -> ReceiptExplanation.Expectation
    {
        var expectation = ReceiptExplanation.Expectation(
            roots: try chain.get().trustedRoots, bundleID: "com.mygame", environment: .production, at: now)
        change(&expectation)
        return expectation
    }

    @Test func genuineReceiptIsVerifiedAndShown() throws {
        let explanation = ReceiptExplanation(try Self.receipt(), try Self.expectation())
        #expect(explanation.isVerified)
        #expect(explanation.text.hasSuffix("VERIFIED") && explanation.text.contains("payload (signed)"))
        for part in [
            "2000001234500777", "2026-10-26T07:33:20", "bundle-id", "passed", "com.mygame, expected com.mygame",
        ] {
            #expect(explanation.text.contains(part), "\(part)")
        }
        #expect(!explanation.text.contains("failed"))
    }

    @Test func whiteSpaceAroundAReceiptIsIgnored() throws {
        #expect(ReceiptExplanation("\n  " + (try Self.receipt()) + "\n", try Self.expectation()).isVerified)
    }

    @Test func whatIsNotAskedIsNotHeldAgainstIt() throws {
        let explanation = ReceiptExplanation(
            try Self.receipt(["environment": "\"Sandbox\""]),
            try Self.expectation {
                $0.bundleID = nil
                $0.environment = nil
            })
        #expect(explanation.isVerified && explanation.text.contains("not asked"))
        #expect(
            explanation.text.hasSuffix(
                "\nVERIFIED as Apple's, but nobody asked for which app and environment: give --bundle-id and --environment"
            ))
        let app = ReceiptExplanation(try Self.receipt(), try Self.expectation { $0.environment = nil })
        #expect(app.isVerified && app.text.hasSuffix("for which environment: give --environment"))
        let environment = ReceiptExplanation(try Self.receipt(), try Self.expectation { $0.bundleID = nil })
        #expect(environment.isVerified && environment.text.hasSuffix("for which app: give --bundle-id"))
    }

    @Test(arguments: ["1793000030000", "\"yesterday\""]) func refundedReceiptIsRefused(date: String) throws {
        let refunded = try Self.receipt(["revocationDate": date, "revocationReason": "0"])
        for expectation in [try Self.expectation(), try Self.expectation { $0.bundleID = nil }] {
            let explanation = ReceiptExplanation(refunded, expectation)
            #expect(!explanation.isVerified && explanation.text.contains("\nREFUSED: it was refunded or revoked"))
            #expect(explanation.text.contains("failed"))
        }
        let kept = ReceiptExplanation(try Self.receipt(["revocationDate": "null"]), try Self.expectation())
        #expect(kept.isVerified)
    }

    @Test func receiptIsTakenOutOfARequestOrAJob() throws {
        let receipt = try Self.receipt()
        for json in [
            #"{"userId":"ada","receiptData":"\#(receipt)","platform":"ios"}"#, #" {"receiptData":" \#(receipt)\n"} "#,
        ] {
            let explanation = ReceiptExplanation(json, try Self.expectation())
            #expect(explanation.isVerified && explanation.text.contains("2000001234500777"), "\(explanation.text)")
        }
        for json in [#"{"receiptData":7}"#, #"{"userId":"ada"}"#, #"{"receiptData":""}"#, #"{"receiptData":"#] {
            let explanation = ReceiptExplanation(json, try Self.expectation())
            #expect(!explanation.isVerified && explanation.text.contains("Not a receipt"), "\(explanation.text)")
        }
    }

    @Test func otherAppAndOtherEnvironmentAreRefusedAndSaid() throws {
        for (changes, part) in [
            (["bundleId": "\"com.other\""], "com.other, expected com.mygame"),
            (["environment": "\"Sandbox\""], "Sandbox, expected Production"),
        ] {
            let explanation = ReceiptExplanation(try Self.receipt(changes), try Self.expectation())
            #expect(!explanation.isVerified && explanation.text.contains(part))
            #expect(explanation.text.hasSuffix("REFUSED: it is for another app or environment"))
        }
    }

    @Test func rootIsAppleUnlessToldOtherwise() throws {
        let explanation = ReceiptExplanation(try Self.receipt(), .init(at: Self.now))
        #expect(!explanation.isVerified && explanation.text.contains("REFUSED: "))
        #expect(explanation.text.contains("NOT TO BE TRUSTED"))
        var told = ReceiptExplanation.Expectation(at: Self.now)
        let isTaken = told.trust(fingerprint: try Self.chain.get().root.fingerprint)
        #expect(isTaken)
        #expect(ReceiptExplanation(try Self.receipt(), told).isVerified)
        let isNonsenseTaken = told.trust(fingerprint: "abc")
        #expect(!isNonsenseTaken)
    }

    @Test func forgeriesAreRefused() throws {
        let receipt = try Self.receipt()
        let parts = receipt.split(separator: ".").map(String.init)
        let flipped = parts[1].hasSuffix("A") ? parts[1].dropLast() + "B" : parts[1].dropLast() + "A"
        for forged in [
            "\(parts[0]).\(flipped).\(parts[2])", "\(parts[0]).\(parts[1]).\(String(parts[2].reversed()))",
            try Self.receipt(chain: try MintedChain.make(around: Self.now)),
            try Self.receipt(["signedDate": "1793009999999"]),
        ] {
            let explanation = ReceiptExplanation(forged, try Self.expectation())
            #expect(!explanation.isVerified && explanation.text.contains("failed"))
            #expect(explanation.text.contains("REFUSED: "))
        }
    }

    @Test func timeOfJudgementMatters() throws {
        let early = ReceiptExplanation(
            try Self.receipt(), try Self.expectation { $0.at = UnixMilliseconds(1_792_000_000_000) })
        #expect(!early.isVerified)
        let late = ReceiptExplanation(
            try Self.receipt(), try Self.expectation { $0.at = UnixMilliseconds(2_500_000_000_000) })
        #expect(late.isVerified)
    }

    @Test(arguments: [
        ("MI" + String(repeating: "A", count: 298), "legacy app receipt"),
        ("aaaabbbbccccddddeeeeffff.AO-J1Omadeup", "purchase token"), ("", "Not a receipt"), ("hello", "Not a receipt"),
        ("eyJ.a.b", "REFUSED"),
    ])
    func whatCannotBeJudgedOfflineIsNotVerified(text: String, expected: String) throws {
        let explanation = ReceiptExplanation(text, try Self.expectation())
        #expect(!explanation.isVerified && explanation.text.contains(expected))
    }

    @Test func terminalIsNotCommanded() throws {
        let explanation = ReceiptExplanation(
            try Self.receipt(["storefront": "\"\\u001b[2J\\u009b31m\"", "bundleId": "\"\\u001b[31mcom\""]),
            try Self.expectation())
        let controls = explanation.text.unicodeScalars.filter { $0.properties.generalCategory == .control }
        #expect(controls.allSatisfy { $0 == "\n" })
    }
}
