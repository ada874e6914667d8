import Commerce
import Testing
import Verification

/// Goal: no code of Apple's can turn a good purchase into a refusal unless it speaks about the purchase.
///
/// Method: every code of the App Store Server API and of verifyReceipt with its class; every other code by status.
@Suite struct AppleErrorClassTests {
    static let codes: [(Int64, AppleErrorClass)] = [
        (4_000_006, .final(.malformedReceipt)), (4_000_008, .final(.malformedReceipt)),
        (4_000_048, .final(.malformedReceipt)),
        (4_040_001, .unknownPurchase), (4_040_005, .unknownPurchase), (4_040_010, .unknownPurchase),
        (4_040_002, .retrySoon), (4_040_004, .retrySoon), (4_040_006, .retrySoon),
        (4_040_003, .ourConfiguration),
        (4_290_000, .retryAfter),
        (5_000_000, .retrySoon), (5_000_001, .retrySoon),
    ]

    /// Codes that can only mean that we asked something we should not have asked.
    static let codesAboutTheRequest: [Int64] =
        [4_000_000, 4_000_002, 4_000_004, 4_000_005] + Array(4_000_009...4_000_028) + [4_000_030, 4_000_031]
        + Array(4_000_032...4_000_043) + [4_000_047] + Array(4_000_161...4_000_164) + [4_000_175, 4_000_183]
        + [4_000_185, 4_000_187, 4_000_209] + Array(4_000_211...4_000_219) + [4_000_224, 4_000_225, 4_000_227]
        + [4_030_004, 4_030_005, 4_030_007, 4_030_014] + Array(4_030_016...4_030_019) + [4_030_026]
        + [4_040_007, 4_040_008, 4_040_009, 4_040_014, 4_040_015, 4_040_018, 4_040_019, 4_040_020, 4_040_021]
        + [4_040_022, 4_090_000, 4_090_001]

    @Test(arguments: codes)
    func codeAboutThePurchaseOrTheMomentHasItsClass(code: Int64, expected: AppleErrorClass) {
        for environment in StoreEnvironment.allCases {
            let found = AppleErrorClass(status: Int(code / 10_000), errorCode: code, environment: environment)
            #expect(found == expected)
        }
    }

    @Test(arguments: codesAboutTheRequest)
    func codeAboutTheRequestNeverRefusesThePurchase(code: Int64) {
        let found = AppleErrorClass(status: Int(code / 10_000), errorCode: code, environment: .production)
        #expect(found == .ourConfiguration)
    }

    @Test(arguments: [
        (400, AppleErrorClass.ourConfiguration), (401, .otherEnvironment), (403, .ourConfiguration),
        (404, .ourConfiguration), (405, .ourConfiguration), (408, .retrySoon), (409, .ourConfiguration),
        (413, .ourConfiguration), (425, .retrySoon), (429, .retryAfter), (500, .retrySoon), (502, .retrySoon),
        (503, .retrySoon), (504, .retrySoon), (599, .retrySoon), (301, .retrySoon), (302, .retrySoon),
    ])
    func answerWithoutCodeIsJudgedByItsStatus(status: Int, expected: AppleErrorClass) {
        #expect(AppleErrorClass(status: status, errorCode: nil, environment: .production) == expected)
    }

    @Test func bare401InTheSandboxIsOurConfiguration() {
        #expect(AppleErrorClass(status: 401, errorCode: nil, environment: .sandbox) == .ourConfiguration)
    }

    @Test(arguments: [
        (401, 4_010_001, AppleErrorClass.ourConfiguration), (404, 4_049_999, .ourConfiguration),
        (429, 4_299_999, .retryAfter), (500, 5_000_099, .retrySoon), (503, 5_030_000, .retrySoon),
    ])
    func unknownCodeIsJudgedByItsStatus(status: Int, code: Int64, expected: AppleErrorClass) {
        #expect(AppleErrorClass(status: status, errorCode: code, environment: .production) == expected)
    }

    @Test(
        arguments: [
            (0, nil, nil), (21006, nil, nil),
            (21000, nil, .ourConfiguration), (21001, nil, .ourConfiguration), (21004, nil, .ourConfiguration),
            (21002, nil, .ambiguous(.malformedReceipt)), (21002, false, .ambiguous(.malformedReceipt)),
            (21002, true, .retrySoon),
            (21003, nil, .final(.invalidSignature)), (21005, nil, .retrySoon), (21009, nil, .retrySoon),
            (21007, nil, .otherEnvironment), (21008, nil, .otherEnvironment), (21010, nil, .final(.unknownPurchase)),
            (21100, true, .retrySoon), (21155, nil, .retrySoon), (21199, false, .final(.unknownPurchase)),
            (21011, nil, .retrySoon), (21200, nil, .retrySoon), (-1, nil, .retrySoon), (99999, false, .retrySoon),
        ] as [(Int64, Bool?, AppleErrorClass?)])
    func receiptStatusHasItsClass(status: Int64, isRetryable: Bool?, expected: AppleErrorClass?) {
        #expect(AppleErrorClass.receiptStatus(status, isRetryable: isRetryable) == expected)
    }
}
