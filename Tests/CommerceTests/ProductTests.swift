import Commerce
import Testing

@Suite struct ProductTests {
    @Test(arguments: [(1, 550), (2, 1_100), (10_000, 5_500_000)] as [(Int64, Int64)])
    func consumablesGrantPerPiece(quantity: Int64, gems: Int64) throws {
        let grants = try Samples.product(Samples.medium).grants(quantity: quantity)
        #expect(grants == Grants(currencies: [CurrencyAmount(.gems, gems)]))
        #expect(grants.amount(of: .gems) == gems)
    }

    @Test(arguments: [1, 2, 10_000] as [Int64])
    func nonConsumablesGrantOnceWhateverTheQuantity(_ quantity: Int64) throws {
        let grants = try Samples.product(Samples.pass).grants(quantity: quantity)
        #expect(grants.currencies == [CurrencyAmount(.gems, 30)])
        #expect(grants.entitlements.map(\.rawValue) == ["gold_pass"])
    }

    @Test func nonConsumablesMayGrantNoGems() throws {
        let product = try Samples.product(Samples.pass.replacing("\"gemAmount\":30,", with: ""))
        #expect(try product.grants(quantity: 1).currencies.isEmpty)
        #expect(try product.grants(quantity: 1).amount(of: .gems) == 0)
    }

    @Test(arguments: [0, -1, 10_001, Int64(Int32.max) + 1, .min, .max])
    func quantitiesOutOfRangeAreRefused(_ quantity: Int64) throws {
        let product = try Samples.product(Samples.medium)
        #expect(throws: GrantError.quantityOutOfRange) { try product.grants(quantity: quantity) }
    }

    @Test func amountsBeyondTheLimitAreRefused() throws {
        let most = try Samples.product(
            Samples.medium.replacing(
                "\"gemAmount\":500,\"bonusGemAmount\":50", with: "\"gemAmount\":9007199254740990,\"bonusGemAmount\":1"))
        #expect(try most.grants(quantity: 1).amount(of: .gems) == Limits.amountMax)
        #expect(throws: GrantError.amountTooLarge) { try most.grants(quantity: 2) }
        // 9007199254740991 × 10000 does not fit into 64 bits.
        #expect(throws: GrantError.amountTooLarge) { try most.grants(quantity: 10_000) }
    }
}
