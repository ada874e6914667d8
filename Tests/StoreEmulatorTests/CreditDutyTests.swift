import StoreEmulator
import ServiceRuntime
import Testing

@Suite @LoopActor struct CreditDutyTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let store: EmulatedStore
        let duty: CreditDuty
        let change: @Sendable (inout PurchaseRequest) -> Void

        init(
            _ name: String, _ store: EmulatedStore, _ duty: CreditDuty,
            _ change: @escaping @Sendable (inout PurchaseRequest) -> Void
        ) {
            testDescription = "\(store) \(name)"
            self.store = store
            self.duty = duty
            self.change = change
        }
    }

    @Test(arguments: [
        Row("ordinary", .apple, .must) { _ in }, Row("ordinary", .google, .must) { _ in },
        Row("several", .apple, .must) { $0.quantity = 5 }, Row("promo", .google, .must) { $0.isPromo = true },
        Row("non-consumable", .apple, .must) { $0.type = "Non-Consumable" },
        Row("sandbox", .apple, .may) { $0.environment = .sandbox }, Row("test", .google, .may) { $0.isTest = true },
        Row("pending", .google, .mustNot) { $0.state = .pending },
        Row("cancelled", .google, .mustNot) { $0.state = .cancelled },
        Row("refunded", .apple, .mustNot) { $0.state = .refunded },
        Row("refunded", .google, .mustNot) { $0.state = .refunded },
        Row("of another app", .apple, .mustNot) { $0.appID = "com.othergame" },
        Row("of another app", .google, .mustNot) { $0.appID = "com.othergame" },
        Row("family shared", .apple, .mustNot) { $0.ownership = "FAMILY_SHARED" },
        Row("assigned", .apple, .mustNot) { $0.ownership = "ASSIGNED" },
        Row("old leaf", .apple, .must) { $0.signer = .expiredLeaf },
        Row("forged", .apple, .mustNot) { $0.signer = .rogueRoot },
    ])
    func theGroundTruthKnowsWhatMustBeCredited(row: Row) async throws {
        try await EmulatorScene.with { scene in
            var request = PurchaseRequest(store: row.store, player: "p", storeProductID: "gems")
            row.change(&request)
            let purchase = try scene.emulator.purchase(request)
            #expect(scene.emulator.duty(of: purchase.record) == row.duty)
        }
    }
}
