import Commerce
import HTTP
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing
import Verification

/// Goal: what was written against documentation works against stores that were written against it by somebody else.
///
/// Method: the emulator over real HTTP, sharing no wire type with Verification; purchases of every kind and every fault.
@LoopActor
@Suite(.serialized) struct EmulatedStoresTests {
    /// A running emulator and a verifier that takes it for the stores.
    @LoopActor
    private final class Market {
        let emulator: StoreEmulator
        let http: HTTPClient
        let verifier: PurchaseVerifier
        let catalogue: Catalogue

        init(_ change: (inout VerificationConfiguration) -> Void = { _ in }) throws {
            emulator = try StoreEmulator()
            _ = try emulator.start()
            http = HTTPClient(logger: .disabled)
            catalogue = try World.catalogue()
            var configuration = try VerificationConfiguration(emulatedBy: emulator)
            change(&configuration)
            verifier = try PurchaseVerifier(configuration, http: http, logger: .disabled, metrics: Metrics())
        }

        func stop() async {
            await http.stop()
            await emulator.stop()
        }

        func buy(
            _ store: EmulatedStore, _ product: String? = nil, _ change: (inout PurchaseRequest) -> Void = { _ in }
        ) throws -> EmulatedPurchase {
            let name = product ?? (store == .apple ? "com.mygame.gems.500" : "gems_500")
            var request = PurchaseRequest(store: store, player: World.player, storeProductID: name)
            change(&request)
            return try emulator.purchase(request)
        }

        func look(
            _ receipt: String, _ store: EmulatedStore, product: String? = "gems_pack_medium",
            attempt: VerificationAttempt = .first
        ) async throws -> Verdict {
            let submission = try World.submission(
                receipt, store: store == .apple ? .appStore : .googlePlay, product: product)
            return await verifier.verify(submission, catalogue: catalogue, attempt: attempt)
        }
    }

    private func withMarket(
        _ change: (inout VerificationConfiguration) -> Void = { _ in }, _ body: (Market) async throws -> Void
    ) async throws {
        let market = try Market(change)
        try await running {
            try await body(market)
        } stop: {
            await market.stop()
        }
    }

    @Test func purchasesOfEveryKindAreJudgedAtApple() async throws {
        try await withMarket { market in
            let rows: [(String, (inout PurchaseRequest) -> Void)] = [
                ("verified 1 × gems_pack_medium: 550 gems", { _ in }),
                ("verified 3 × gems_pack_medium: 1650 gems", { $0.quantity = 3 }),
                ("verified 1 × gems_pack_medium: 550 gems", { $0.accountToken = World.accountToken() }),
                ("verified 1 × gems_pack_medium: 550 gems", { $0.signer = .expiredLeaf }),
                ("rejected belongs-to-another-player", { $0.accountToken = World.accountToken(of: "bob") }),
                ("rejected refunded", { $0.state = .refunded }),
                ("rejected family-shared", { $0.ownership = "FAMILY_SHARED" }),
                ("rejected wrong-app", { $0.appID = "com.othergame" }),
                ("rejected sandbox-not-allowed", { $0.environment = .sandbox }),
                ("rejected unsupported-product", { $0.type = "Auto-Renewable Subscription" }),
                ("rejected invalid-signature", { $0.signer = .expiredWhenSigned }),
                ("rejected invalid-signature", { $0.signer = .rogueRoot }),
                ("rejected invalid-signature", { $0.signer = .developerCertificate }),
                ("rejected invalid-signature", { $0.signer = .changedPayload }),
                ("rejected invalid-signature", { $0.signer = .none }),
            ]
            for (expected, change) in rows {
                let purchase = try market.buy(.apple, nil, change)
                #expect(try await market.look(purchase.receipt, .apple).summary == expected)
            }
            let doubler = try market.buy(.apple, "com.mygame.doubler") { $0.type = "Non-Consumable" }
            let owned = try await market.look(doubler.receipt, .apple, product: "doubler")
            #expect(owned.summary == "verified 1 × doubler: 10 gems + doubler")
            #expect(market.emulator.requests(to: .appleSandboxTransaction) == 0)
        }
    }

    @Test func refundAfterTheReceiptWasMadeIsSeenAtApple() async throws {
        try await withMarket { market in
            let purchase = try market.buy(.apple)
            try market.emulator.move(purchase.id, to: .refunded)
            #expect(try await market.look(purchase.receipt, .apple).summary == "rejected refunded")
        }
    }

    @Test func sandboxPurchaseIsConfirmedInTheSandbox() async throws {
        try await withMarket {
            $0.sandbox = .everybody
        } _: { market in
            let purchase = try market.buy(.apple) { $0.environment = .sandbox }
            let verdict = try await market.look(purchase.receipt, .apple)
            #expect(verdict.purchases.first?.environment == .sandbox)
            #expect(market.emulator.requests(to: .appleTransaction) == 0)
            let receipt = try market.emulator.appReceipt(of: [purchase.id])
            let legacy = try await market.look(receipt, .apple)
            #expect(legacy.purchases.map(\.key) == verdict.purchases.map(\.key) && !legacy.purchases.isEmpty)
            #expect(market.emulator.requests(to: .appleReceipt) == 1)
            #expect(market.emulator.requests(to: .appleSandboxReceipt) == 1)
        }
    }

    @Test func appReceiptOfSeveralPurchasesGivesAllGoodOnes() async throws {
        try await withMarket { market in
            let first = try market.buy(.apple) { $0.quantity = 2 }
            let second = try market.buy(.apple, "com.mygame.gems.9000")
            let refunded = try market.buy(.apple) { $0.state = .refunded }
            let doubler = try market.buy(.apple, "com.mygame.doubler") { $0.type = "Non-Consumable" }
            let receipt = try market.emulator.appReceipt(of: [first.id, second.id, refunded.id, doubler.id])
            let verdict = try await market.look(receipt, .apple)
            let keys = Set(verdict.purchases.map(\.key.text))
            #expect(keys == Set([first, second, doubler].map { "apple:Production:\($0.id)" }))
            // The same purchase has one key, whichever proof is shown.
            let signed = try await market.look(first.receipt, .apple)
            #expect(keys.contains(signed.purchases.first?.key.text ?? ""))
        }
    }

    @Test func purchasesOfEveryKindAreJudgedAtGoogle() async throws {
        try await withMarket { market in
            let rows: [(String, (inout PurchaseRequest) -> Void)] = [
                ("verified 1 × gems_pack_medium: 550 gems", { _ in }),
                ("verified 3 × gems_pack_medium: 1650 gems", { $0.quantity = 3 }),
                ("verified 1 × gems_pack_medium: 550 gems", { $0.isPromo = true }),
                ("verified 1 × gems_pack_medium: 550 gems", { $0.accountToken = World.accountToken() }),
                ("rejected belongs-to-another-player", { $0.accountToken = World.accountToken(of: "bob") }),
                ("awaiting payment", { $0.state = .pending }), ("rejected cancelled", { $0.state = .cancelled }),
                ("rejected cancelled", { $0.state = .refunded }),
                ("rejected sandbox-not-allowed", { $0.isTest = true }),
            ]
            for (expected, change) in rows {
                let purchase = try market.buy(.google, nil, change)
                #expect(try await market.look(purchase.receipt, .google).summary == expected)
            }
            let other = try market.buy(.google) { $0.appID = "com.othergame" }
            #expect(try await market.look(other.receipt, .google).summary.hasPrefix("rejected"))
            let cheap = try market.buy(.google)
            let claimed = try await market.look(cheap.receipt, .google, product: "gems_pack_huge")
            #expect(claimed.summary.hasPrefix("rejected"))
            #expect(market.emulator.requests(to: .googleToken) == 1)
        }
    }

    @Test func pendingPurchaseIsCreditedOncePaid() async throws {
        try await withMarket { market in
            let purchase = try market.buy(.google) { $0.state = .pending }
            #expect(try await market.look(purchase.receipt, .google).summary == "awaiting payment")
            try market.emulator.move(purchase.id, to: .purchased)
            #expect(try await market.look(purchase.receipt, .google).summary.hasPrefix("verified"))
        }
    }

    @Test(arguments: [EmulatedStore.apple, .google])
    func purchaseThatTheStoreDoesNotKnowYetAppears(store: EmulatedStore) async throws {
        try await withMarket { market in
            let purchase = try market.buy(store) { $0.unknownReads = 2 }
            var summaries: [String] = []
            for number in 1...3 {
                let attempt = VerificationAttempt(number: number, age: .seconds(number * 2))
                summaries.append(try await market.look(purchase.receipt, store, attempt: attempt).summary)
            }
            #expect(
                summaries == ["open too-new", "open too-new", "verified 1 × gems_pack_medium: 550 gems"])
        }
    }

    @Test func dutiesMayBeRepeated() async throws {
        try await withMarket { market in
            for (product, name, isConsumed) in [
                ("gems_500", "gems_pack_medium", true), ("doubler", "doubler", false),
            ] {
                let purchase = try market.buy(.google, product) { if !isConsumed { $0.type = "Non-Consumable" } }
                let verdict = try await market.look(purchase.receipt, .google, product: name)
                let duty = try #require(verdict.purchases.first?.duty)
                for _ in 1...2 { #expect(await market.verifier.perform(duty) == .done) }
                let record = try #require(market.emulator.record(purchase.id, in: .google))
                #expect(record.isConsumed == isConsumed && record.isAcknowledged)
                // Presented again it is still good, and nothing is left to do.
                let again = try await market.look(purchase.receipt, .google, product: name)
                #expect(again.purchases.count == 1 && again.purchases.first?.duty == nil)
            }
            let refunded = try market.buy(.google)
            let duty = try #require(try await market.look(refunded.receipt, .google).purchases.first?.duty)
            try market.emulator.move(refunded.id, to: .refunded)
            #expect(await market.verifier.perform(duty) == .impossible(.cancelled))
        }
    }

    @Test func lostAnswerToADutyIsMadeGood() async throws {
        try await withMarket { market in
            let purchase = try market.buy(.google)
            let duty = try #require(try await market.look(purchase.receipt, .google).purchases.first?.duty)
            market.emulator.setFaults(
                FaultKnobs(faults: [StoreFault(.badGatewayPage, count: 1, happensAfterEffect: true)]),
                for: "google.consume")
            #expect(await market.verifier.perform(duty) == .retry(after: nil, cause: .storeUnavailable))
            #expect(await market.verifier.perform(duty) == .done)
        }
    }

    @Test func endedAccessTokenIsRenewedOnTheWay() async throws {
        try await withMarket { market in
            let purchase = try market.buy(.google)
            #expect(try await market.look(purchase.receipt, .google).summary.hasPrefix("verified"))
            market.emulator.expireAccessTokens()
            #expect(try await market.look(purchase.receipt, .google).summary.hasPrefix("verified"))
            #expect(market.emulator.requests(to: .googleToken) == 2)
        }
    }

    nonisolated static let faults: [(StoreFault.Kind, String, String)] = [
        (.status(500), "open store-unavailable", "open store-unavailable"),
        (.status(503), "open store-unavailable", "open store-unavailable"),
        (.status(403), "open our-configuration", "open our-configuration"),
        (.throttled(retryAfter: .seconds(20)), "open store-throttled", "open store-throttled"),
        (.unauthorizedText, "open our-configuration", "open our-configuration"),
        (.badGatewayPage, "open store-unavailable", "open store-unavailable"),
        (.notJSON, "open store-unavailable", "open store-unavailable"),
        (.truncated, "open store-unavailable", "open store-unavailable"),
        (.reset, "open store-unavailable", "open store-unavailable"),
        (.close, "open store-unavailable", "open store-unavailable"),
        (.hang, "open store-unavailable", "open store-unavailable"),
    ]

    @Test(arguments: faults)
    func faultLeavesThePurchaseOpenUntilItIsOver(
        fault: StoreFault.Kind, atApple: String, atGoogle: String
    ) async throws {
        let isHang = if case .hang = fault { true } else { false }
        try await withMarket {
            if isHang { $0.limits.callDeadline = .milliseconds(500) }
        } _: { market in
            let signed = try market.buy(.apple)
            let token = try market.buy(.google)
            let receipt = try market.emulator.appReceipt(of: [signed.id])
            // The access token is there before the trouble begins.
            try await eventually(within: .seconds(20), "an access token") {
                try await !market.look(token.receipt, .google).purchases.isEmpty
            }
            market.emulator.setFaults(FaultKnobs(faults: [StoreFault(fault)]), for: "*")
            let late = VerificationAttempt(number: 99, age: .seconds(99_999))
            let atTrouble = try await market.look(signed.receipt, .apple, attempt: late)
            #expect(atTrouble.summary == atApple)
            #expect(try await market.look(receipt, .apple, attempt: late).summary == atApple)
            #expect(try await market.look(token.receipt, .google, attempt: late).summary == atGoogle)
            if case .throttled = fault {
                let delay = try #require(atTrouble.retryAfter)
                #expect(delay > .seconds(15) && delay <= .seconds(20))
            }
            market.emulator.setFaults(FaultKnobs(), for: "*")
            for (text, store) in [(signed.receipt, EmulatedStore.apple), (receipt, .apple), (token.receipt, .google)] {
                // Not always at once: a failed renewal of the access token is remembered for a second.
                try await eventually(within: .seconds(20), "credited after \(fault)") {
                    try await market.look(text, store).summary.hasPrefix("verified")
                }
            }
        }
    }

    @Test func tlsIsNotNegotiable() async throws {
        // An https URL on a server that speaks plain http: no answer, no refusal, no fallback.
        try await withMarket {
            let url = $0.google?.baseURL ?? ""
            $0.google?.baseURL = url.replacing("http://", with: "https://")
        } _: { market in
            let purchase = try market.buy(.google)
            #expect(try await market.look(purchase.receipt, .google).summary == "open store-unavailable")
        }
    }
}
