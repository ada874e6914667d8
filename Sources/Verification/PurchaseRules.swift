import Commerce
import Signing

/// The questions both stores' answers are asked before a purchase counts; no I/O, so every rule is a table in the tests.
struct PurchaseRules: Sendable {
    let submission: ReceiptSubmission
    let catalogue: Catalogue
    let sandbox: SandboxPolicy
    let accountTokenNamespace: [UInt8]?

    /// Whether the account token in the store's data is this player's, or absent.
    func mayBelongToPlayer(_ storeToken: String?) -> Bool {
        guard let storeToken, !storeToken.isEmpty else { return true }
        if let expected = submission.accountToken { return AccountBinding(expected: expected).allows(storeToken) }
        guard let accountTokenNamespace else { return true }
        let expected = UUIDv5.make(namespace: accountTokenNamespace, name: submission.player.rawValue)
        return AccountBinding(expected: expected).allows(storeToken)
    }

    /// The same player and receipt, with no product named.
    var withoutClaim: PurchaseRules {
        PurchaseRules(
            submission: submission.withoutProduct, catalogue: catalogue, sandbox: sandbox,
            accountTokenNamespace: accountTokenNamespace)
    }

    /// What `quantity` of a product gives, or why that cannot be said.
    static func grants(
        of product: Product, quantity: Int64, entitlementsOnly: Bool = false
    ) -> Result<Grants, GrantError> {
        Result { () throws(GrantError) in
            var grants = try product.grants(quantity: quantity)
            if entitlementsOnly { grants.currencies = [] }
            return grants
        }
    }
}

extension PurchaseKey {
    static func apple(environment: StoreEnvironment, transactionID: TransactionID) -> PurchaseKey {
        apple(environment: environment, transactionID: transactionID) { Digest.sha256($0) }
    }

    static func google(token: PurchaseToken) -> PurchaseKey {
        google(token: token) { Digest.sha256($0) }
    }
}
