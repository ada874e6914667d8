import HTTP
import ServiceRuntime
import Signing
import StoreEmulator
import TestSupport
import Testing

@Suite @LoopActor struct AppleStoreTests {
    private static let gems = PurchaseRequest(store: .apple, player: "ada", storeProductID: "com.mygame.gems.500")

    @Test func aPurchaseIsToldAsASignedTransaction() async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.quantity = 3
            request.accountToken = "0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e"
            let purchase = try scene.emulator.purchase(request)
            let answer = try await scene.transaction(purchase.id)
            #expect(answer.status == 200)
            let jws = try JSONView.parse(answer.body).string("signedTransactionInfo")
            let payload = try scene.verified(jws).json
            #expect(try payload.string("transactionId") == purchase.id)
            #expect(try payload.string("originalTransactionId") == purchase.id)
            #expect(try payload.string("bundleId") == "com.mygame")
            #expect(try payload.string("productId") == "com.mygame.gems.500")
            #expect(try payload.int64("quantity") == 3)
            #expect(try payload.string("appAccountToken") == request.accountToken)
            #expect(try payload.string("environment") == "Production")
            #expect(try payload.string("inAppOwnershipType") == "PURCHASED")
            #expect(payload["revocationDate"] == nil)
            #expect(try scene.verified(purchase.receipt).json.string("transactionId") == purchase.id)
        }
    }

    @Test func eachReadIsSignedAnewAndKeepsItsOtherFields() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            let boughtAt = scene.clock.now
            for _ in 0..<2 {
                scene.clock.advance(.seconds(3600))
                let answer = try await scene.transaction(purchase.id)
                let verified = try scene.verified(JSONView.parse(answer.body).string("signedTransactionInfo"))
                #expect(verified.signedDate == scene.clock.now)
                #expect(try verified.json.int64("purchaseDate") == boughtAt.value)
            }
        }
    }

    @Test func aRefundShowsInTheTransactionAfterwards() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            scene.clock.advance(.seconds(60))
            try scene.emulator.move(purchase.id, to: .refunded)
            let answer = try await scene.transaction(purchase.id)
            let payload = try scene.verified(JSONView.parse(answer.body).string("signedTransactionInfo")).json
            #expect(try payload.int64("revocationDate") == scene.clock.now.value)
            #expect(try payload.string("revocationType") == "REFUND_FULL")
        }
    }

    struct BadToken: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let change: @Sendable (inout AppleClaims) throws -> Void
    }

    @Test(arguments: [
        BadToken(testDescription: "another key") { $0.key = try .generate() },
        BadToken(testDescription: "unknown kid") { $0.keyID = "OTHERKEY01" },
        BadToken(testDescription: "no kid") { $0.keyID = nil },
        BadToken(testDescription: "foreign issuer") { $0.issuer = "someone" },
        BadToken(testDescription: "wrong audience") { $0.audience = "appstoreconnect-v2" },
        BadToken(testDescription: "unknown bundle id") { $0.bundleID = "com.other" },
        BadToken(testDescription: "expired") { $0.issued -= 301 },
        BadToken(testDescription: "lives over an hour") { $0.life = 3601 },
        BadToken(testDescription: "issued tomorrow") { $0.issued += 86_400 },
    ])
    func aBadTokenIsAnsweredWithTextThatIsNotJSON(token: BadToken) async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            let url = scene.emulator.appleURL(.production) + "/inApps/v1/transactions/" + purchase.id
            var failure: (any Error)?
            let text = try scene.appleToken { claims in
                do { try token.change(&claims) } catch { failure = error }
            }
            #expect(failure == nil)
            let answer = try await scene.send(.get, url, token: text)
            #expect(answer.status == 401)
            #expect(throws: JSONError.self) { try JSONView.parse(answer.body) }
            #expect(try await scene.send(.get, url).status == 401)
        }
    }

    @Test func aTokenThatWasGoodIsRefusedAfterItsEnd() async throws {
        try await EmulatorScene.with { scene in
            let purchase = try scene.emulator.purchase(Self.gems)
            let url = scene.emulator.appleURL(.production) + "/inApps/v1/transactions/" + purchase.id
            let token = try scene.appleToken()
            #expect(try await scene.send(.get, url, token: token).status == 200)
            scene.clock.advance(.seconds(301))
            #expect(try await scene.send(.get, url, token: token).status == 401)
        }
    }

    private func errorCode(_ answer: HTTPAnswer) throws -> Int64 { try JSONView.parse(answer.body).int64("errorCode") }

    @Test func anIdIsKnownInItsOwnEnvironmentOnly() async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.environment = .sandbox
            let purchase = try scene.emulator.purchase(request)
            let wrong = try await scene.transaction(purchase.id, .production)
            #expect(wrong.status == 404)
            #expect(try errorCode(wrong) == 4_040_010)
            #expect(try await scene.transaction(purchase.id, .sandbox).status == 200)
        }
    }

    @Test func unknownForeignAndMalformedIdsHaveTheirOwnCodes() async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.appID = "com.othergame"
            let foreign = try scene.emulator.purchase(request)
            #expect(try scene.verified(foreign.receipt).json.string("bundleId") == "com.othergame")
            for (id, code) in [
                (foreign.id, 4_040_010), ("2000000000000001", 4_040_010), ("abc", 4_000_006),
                ("704200000000000001", 4_000_048),
            ] as [(String, Int64)] {
                let answer = try await scene.transaction(id)
                #expect(try errorCode(answer) == code)
                #expect(answer.status == Int(code / 10_000))
            }
        }
    }

    @Test func aPurchaseCanBeUnknownForSomeReads() async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.unknownReads = 2
            let purchase = try scene.emulator.purchase(request)
            var statuses: [Int] = []
            for _ in 0..<3 { statuses.append(try await scene.transaction(purchase.id).status) }
            #expect(statuses == [404, 404, 200])
        }
    }

    @Test(
        arguments: [
            (ReceiptSigner.genuine, nil), (.expiredLeaf, nil), (.expiredWhenSigned, .validity),
            (.developerCertificate, .leafMarker), (.changedPayload, .signature), (.none, .algorithm),
            (.rogueRoot, .root),
        ] as [(ReceiptSigner, SignedDataCheckpoint?)])
    func forgedReceiptsAreRefusedAndOldOnesAreNot(signer: ReceiptSigner, failing: SignedDataCheckpoint?) async throws {
        try await EmulatorScene.with { scene in
            var request = Self.gems
            request.signer = signer
            let purchase = try scene.emulator.purchase(request)
            let roots = try TrustedRoots(sha256Fingerprints: [scene.emulator.rootFingerprint])
            let explanation = SignedDataVerifier(roots: roots).explain(purchase.receipt, now: scene.clock.now)
            #expect(explanation.error?.checkpoint == failing)
            #expect(scene.emulator.duty(of: purchase.record) == (failing == nil ? .must : .mustNot))
        }
    }

    @Test func aNewLeafSignsUnderTheSameRoot() async throws {
        try await EmulatorScene.with { scene in
            let old = try scene.emulator.purchase(Self.gems)
            try scene.emulator.replaceLeaf()
            let new = try scene.emulator.purchase(Self.gems)
            #expect(old.receipt.split(separator: ".")[0] != new.receipt.split(separator: ".")[0])
            _ = try scene.verified(old.receipt)
            _ = try scene.verified(new.receipt)
        }
    }

    // MARK: verifyReceipt

    @Test func anOldReceiptListsAllItsPurchases() async throws {
        try await EmulatorScene.with { scene in
            var many = Self.gems
            many.quantity = 2
            let first = try scene.emulator.purchase(Self.gems)
            let second = try scene.emulator.purchase(many)
            try scene.emulator.move(first.id, to: .refunded)
            let answer = try await scene.verifyReceipt(scene.emulator.appReceipt(of: [first.id, second.id]))
            #expect(try answer.int64("status") == 0)
            #expect(try answer.string("environment") == "Production")
            let receipt = try answer.object("receipt")
            #expect(try receipt.string("bundle_id") == "com.mygame")
            let entries = try receipt.elements("in_app")
            #expect(try entries.map { try $0.string("transaction_id") } == [first.id, second.id])
            #expect(try entries.map { try $0.string("quantity") } == ["1", "2"])
            #expect(entries[0]["cancellation_date_ms"] != nil && entries[1]["cancellation_date_ms"] == nil)
        }
    }

    @Test func aReceiptSentToTheWrongEnvironmentNamesTheRightOne() async throws {
        try await EmulatorScene.with { scene in
            var sandbox = Self.gems
            sandbox.environment = .sandbox
            let test = try scene.emulator.appReceipt(of: [scene.emulator.purchase(sandbox).id])
            let real = try scene.emulator.appReceipt(of: [scene.emulator.purchase(Self.gems).id])
            #expect(try await scene.verifyReceipt(test, .production).int64("status") == 21_007)
            #expect(try await scene.verifyReceipt(test, .sandbox).int64("status") == 0)
            #expect(try await scene.verifyReceipt(real, .sandbox).int64("status") == 21_008)
            #expect(throws: EmulatorError.self) {
                try scene.emulator.appReceipt(of: scene.emulator.groundTruth.map(\.id))
            }
        }
    }

    @Test func rubbishForgeriesAndTheWrongSecretHaveTheirOwnStatus() async throws {
        try await EmulatorScene.with({ $0.appleSharedSecret = "another" }) { scene in
            let receipt = try scene.emulator.appReceipt(of: [scene.emulator.purchase(Self.gems).id])
            var bytes = try #require(Base64.decode(receipt))
            bytes[700] ^= 1
            #expect(try await scene.verifyReceipt(Base64.encode(bytes)).int64("status") == 21_003)
            #expect(try await scene.verifyReceipt("AAAA").int64("status") == 21_002)
            #expect(try await scene.verifyReceipt("not base64").int64("status") == 21_002)
            #expect(try await scene.verifyReceipt(receipt).int64("status") == 21_004)
        }
    }

    @Test func anInternalErrorSaysWhetherToTryAgain() async throws {
        try await EmulatorScene.with { scene in
            let receipt = try scene.emulator.appReceipt(of: [scene.emulator.purchase(Self.gems).id])
            let faults = [
                StoreFault(.receiptStatus(21_155, isRetryable: true), count: 1),
                StoreFault(.receiptStatus(21_005, isRetryable: true), count: 1),
            ]
            scene.emulator.setFaults(FaultKnobs(faults: faults), for: "apple.production.receipt")
            let first = try await scene.verifyReceipt(receipt)
            #expect(try first.int64("status") == 21_155)
            #expect(try first.int64("is_retryable") == 1)
            #expect(try await scene.verifyReceipt(receipt).int64("status") == 21_005)
            #expect(try await scene.verifyReceipt(receipt).int64("status") == 0)
        }
    }
}
