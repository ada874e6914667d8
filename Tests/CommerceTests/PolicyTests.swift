import Commerce
import Testing

@Suite struct PolicyTests {
    @Test func sandboxPurchasesCreditByPolicyOnly() throws {
        let tester = try PlayerID(validating: "tester")
        let player = try PlayerID(validating: "player")
        #expect(!SandboxPolicy.nobody.allows(tester))
        #expect(SandboxPolicy.everybody.allows(player))
        #expect(SandboxPolicy.listed([tester]).allows(tester))
        #expect(!SandboxPolicy.listed([tester]).allows(player))
    }

    static let uuid = "0b7c3c1e-5f0a-4c59-9d0e-1f2a3b4c5d6e"

    @Test(
        arguments: [
            (uuid, nil, true), (uuid, "", true), (uuid, uuid, true), (uuid, uuid.uppercased(), true),
            (uuid, uuid.replacing("0b7c", with: "0b7d"), false), ("u-5fd1c0", "u-5fd1c0", true),
            ("u-5fd1c0", "U-5FD1C0", false), ("u-5fd1c0", uuid, false), (uuid, "u-5fd1c0", false),
        ] as [(String, String?, Bool)])
    func purchasesMadeForAnotherPlayerAreNotAllowed(expected: String, stored: String?, allowed: Bool) {
        #expect(AccountBinding(expected: expected).allows(stored) == allowed)
    }

    @Test func storesHaveTwoNames() {
        #expect(Store(platform: "ios") == .appStore)
        #expect(Store(platform: "android") == .googlePlay)
        #expect(Store(platform: "apple") == nil)
        for store in Store.allCases { #expect(Store(platform: store.platform) == store) }
    }
}
