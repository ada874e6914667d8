@_spi(Verification) import Commerce

/// What a genuine Apple transaction means for this player: all of Apple's rules after the signature, without I/O.
struct AppleJudge: Sendable {
    let bundleIDs: Set<String>
    let environments: Set<StoreEnvironment>
    let rules: PurchaseRules
    let limits: VerificationLimits

    /// The same rules for every purchase of a receipt, whichever of them the request names.
    var forWholeReceipt: AppleJudge {
        AppleJudge(
            bundleIDs: bundleIDs, environments: environments, rules: rules.withoutClaim, limits: limits)
    }

    /// How Apple's purchase types are treated.
    private enum Kind {
        case consumable, nonConsumable, subscription, unknown

        init(_ type: String) {
            switch type {
            case "Consumable": self = .consumable
            case "Non-Consumable": self = .nonConsumable
            case "Auto-Renewable Subscription", "Non-Renewing Subscription": self = .subscription
            default: self = .unknown
            }
        }
    }

    /// How the purchase came to this Apple account.
    private enum Ownership {
        case purchased, shared, unknown

        init(_ text: String) {
            switch text {
            case "PURCHASED": self = .purchased
            // ASSIGNED (2026): a seat given by an organisation. Like family sharing it grants access, never currency.
            case "FAMILY_SHARED", "ASSIGNED": self = .shared
            default: self = .unknown
            }
        }
    }

    /// The environment of a purchase, or why it does not count here.
    func environment(named text: String) -> StoreEnvironment? {
        // Xcode and LocalTesting objects are signed by developers' own machines; they are no environment of a store.
        guard let named = StoreEnvironment(rawValue: text), environments.contains(named) else { return nil }
        return named
    }

    /// The name the purchase is credited under; nil when its type is unknown or ids are missing.
    private func key(of transaction: AppleTransaction, in environment: StoreEnvironment) -> PurchaseKey? {
        switch (Kind(transaction.type), Ownership(transaction.inAppOwnershipType)) {
        case (.unknown, _): nil
        // A family member's row has its own transaction id; the original one is the buyer's.
        case (.nonConsumable, .purchased):
            transaction.originalTransactionID.map { .apple(environment: environment, transactionID: $0) }
        default: .apple(environment: environment, transactionID: transaction.transactionID)
        }
    }

    /// Whose, which app's, which environment's: a refusal that holds whatever the state of the purchase is.
    ///
    /// Nothing here needs the store, so forged, foreign and unwanted receipts cost no call.
    func verdict(on transaction: AppleTransaction) -> Verdict {
        guard bundleIDs.contains(transaction.bundleID) else { return .rejected(.wrongApp) }
        guard let environment = environment(named: transaction.environment) else {
            return .rejected(.wrongEnvironment)
        }
        let key = key(of: transaction, in: environment)
        guard rules.mayBelongToPlayer(transaction.appAccountToken) else {
            return .rejected(.belongsToAnotherPlayer, knownKey: key)
        }
        guard environment == .production || rules.sandbox.allows(rules.submission.player) else {
            return .rejected(.sandboxNotAllowed, knownKey: key)
        }
        if Kind(transaction.type) == .subscription { return .rejected(.unsupportedProduct, knownKey: key) }
        switch rules.catalogue.match(transaction.productID, for: rules.submission) {
        case .unknown(let name):
            return .indeterminate(
                retryAfter: limits.parkedDelay, cause: .unknownProduct, product: name, knownKey: key)
        case .mismatch:
            return .rejected(.productMismatch, knownKey: key)
        case .product(let product):
            guard let key else { return .indeterminate(retryAfter: limits.parkedDelay, cause: .unknownState) }
            return verdict(on: transaction, of: product, environment: environment, key: key)
        }
    }

    /// The state of the purchase and what it grants.
    private func verdict(
        on transaction: AppleTransaction, of product: Product, environment: StoreEnvironment, key: PurchaseKey
    ) -> Verdict {
        let isConsumable = Kind(transaction.type) == .consumable
        if product.type == .subscription { return .rejected(.unsupportedProduct, knownKey: key) }
        guard product.type == (isConsumable ? .consumable : .nonConsumable) else {
            // The catalogue calls it otherwise than App Store Connect does: what it may grant is for a human to say.
            return limits.misconfigured(transaction.productID, key: key)
        }
        let ownership = Ownership(transaction.inAppOwnershipType)
        switch ownership {
        case .purchased: break
        case .shared where isConsumable: return .rejected(.familyShared, knownKey: key)
        case .shared: break
        case .unknown: return .indeterminate(retryAfter: limits.parkedDelay, cause: .unknownState, knownKey: key)
        }
        guard transaction.revocationDate == nil else { return .rejected(.refunded, knownKey: key) }
        switch PurchaseRules.grants(
            of: product, quantity: transaction.quantity, entitlementsOnly: ownership == .shared)
        {
        case .failure(let error):
            return limits.verdict(on: error, of: transaction.productID, key: key)
        case .success(let grants):
            // A shared product that gives nothing but currency gives the family nothing.
            if ownership == .shared, grants == Grants() { return .rejected(.familyShared, knownKey: key) }
            let purchase = VerifiedPurchase(
                key: key, store: .appStore, environment: environment, storeProductID: transaction.productID,
                product: product, quantity: transaction.quantity, grants: grants,
                transactionID: transaction.transactionID, originalTransactionID: transaction.originalTransactionID,
                purchasedAtMilliseconds: transaction.purchaseDate, priceMilliunits: transaction.price,
                priceCurrency: transaction.currency, storefront: transaction.storefront,
                isTest: environment == .sandbox, accountToken: transaction.appAccountToken)
            return .verified(purchase)
        }
    }
}

extension VerificationLimits {
    /// A quantity that cannot be granted is never refused: the store took the money.
    ///
    /// `duty` is what the store waits for if it was credited before, by another catalogue.
    func verdict(
        on error: GrantError, of product: StoreProductID, key: PurchaseKey, duty: StoreDuty? = nil
    ) -> Verdict {
        switch error {
        case .quantityOutOfRange:
            .indeterminate(retryAfter: parkedDelay, cause: .unknownState, knownKey: key, duty: duty)
        case .amountTooLarge:
            misconfigured(product, key: key, duty: duty)
        case .unsupportedType:
            .rejected(.unsupportedProduct, knownKey: key, duty: duty)
        }
    }

    /// A product that the catalogue lists, but not so that it can be granted.
    func misconfigured(_ product: StoreProductID, key: PurchaseKey, duty: StoreDuty? = nil) -> Verdict {
        .indeterminate(
            retryAfter: configurationDelay, cause: .misconfiguredProduct, product: product.rawValue, knownKey: key,
            duty: duty)
    }
}
