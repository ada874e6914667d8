@_spi(Verification) import Commerce

/// What a purchase at Google means for this player: all of Google's rules after the call, without I/O.
struct GoogleJudge: Sendable {
    let package: PackageName
    let consumption: GoogleConfiguration.Consumption
    let rules: PurchaseRules
    let limits: VerificationLimits

    private static let purchased: Int64 = 0
    private static let cancelled: Int64 = 1
    private static let pending: Int64 = 2

    /// How the purchase was made.
    private enum Kind {
        case paid, test, free, unknown

        init(_ purchaseType: Int64?) {
            switch purchaseType {
            case nil: self = .paid
            case 0: self = .test
            // Promo codes and rewarded videos: nobody paid, but Google owes the player the product all the same.
            case 1, 2: self = .free
            default: self = .unknown
            }
        }
    }

    /// Judges the answer to a question about `token` as a purchase of `storeProductID`.
    func verdict(
        on purchase: GoogleProductPurchase, of storeProductID: StoreProductID, token: PurchaseToken, key: PurchaseKey
    ) -> Verdict {
        // Identity first: these hold whatever the state is.
        if let named = purchase.purchaseToken, named != token.rawValue {
            // An answer about another token than the one asked about is the store's mistake, not the player's.
            return parked(key)
        }
        if let named = purchase.productId, named != storeProductID.rawValue {
            return .rejected(.productMismatch, knownKey: key)
        }
        // Computed for what is not verified only; nearly every purchase is a good one.
        var type: ProductType? {
            rules.catalogue.product(store: .googlePlay, storeProductID: storeProductID)?.type
        }
        var duty: StoreDuty? { self.duty(after: purchase, of: type, storeProductID, token: token) }
        var knownDuty: StoreDuty? { self.knownDuty(after: purchase, of: type, storeProductID, token: token) }
        guard rules.mayBelongToPlayer(purchase.obfuscatedExternalAccountId) else {
            return .rejected(.belongsToAnotherPlayer, knownKey: key, duty: duty)
        }
        let kind = Kind(purchase.purchaseType)
        if kind == .unknown { return parked(key, duty: knownDuty) }
        // Test purchases come from the production endpoint and look real but for this flag.
        guard kind != .test || rules.sandbox.allows(rules.submission.player) else {
            return .rejected(.sandboxNotAllowed, knownKey: key, duty: duty)
        }
        switch purchase.purchaseState {
        // Also when it is consumed: it was paid for, and only its key says whether it was credited.
        case Self.purchased: break
        case Self.cancelled: return .rejected(.cancelled, knownKey: key)
        case Self.pending: return .awaitingPayment(knownKey: key)
        default: return parked(key)
        }
        switch rules.catalogue.match(storeProductID, for: rules.submission) {
        case .unknown(let name):
            return .indeterminate(
                retryAfter: limits.parkedDelay, cause: .unknownProduct, product: name, knownKey: key, duty: knownDuty)
        case .mismatch:
            return .rejected(.productMismatch, knownKey: key, duty: duty)
        case .product(let product):
            return verdict(on: purchase, of: product, storeProductID, kind: kind, token: token, key: key)
        }
    }

    private func verdict(
        on purchase: GoogleProductPurchase, of product: Product, _ storeProductID: StoreProductID, kind: Kind,
        token: PurchaseToken, key: PurchaseKey
    ) -> Verdict {
        var knownDuty: StoreDuty? { self.knownDuty(after: purchase, of: product.type, storeProductID, token: token) }
        guard let quantity = creditableQuantity(of: purchase, kind: kind) else {
            return parked(key, duty: knownDuty)
        }
        guard quantity > 0 else { return .rejected(.refunded, knownKey: key) }
        switch PurchaseRules.grants(of: product, quantity: quantity) {
        case .failure(let error):
            return limits.verdict(on: error, of: storeProductID, key: key, duty: knownDuty)
        case .success(let grants):
            let purchase = VerifiedPurchase(
                key: key, store: .googlePlay, environment: kind == .test ? .sandbox : .production,
                storeProductID: storeProductID, product: product, quantity: quantity, grants: grants,
                orderID: purchase.orderId, purchasedAtMilliseconds: purchase.purchaseTimeMillis,
                storefront: purchase.regionCode, isTest: kind == .test, isPromo: kind == .free,
                accountToken: purchase.obfuscatedExternalAccountId,
                duty: duty(after: purchase, of: product.type, storeProductID, token: token))
            return .verified(purchase)
        }
    }

    /// How many of the bought pieces are still paid for; 0 when all were refunded, nil when the numbers make no sense.
    private func creditableQuantity(of purchase: GoogleProductPurchase, kind: Kind) -> Int64? {
        guard (1...Limits.quantityMax).contains(purchase.quantity) else { return nil }
        // Nothing can be refunded of what cost nothing, so there the number says nothing about a refund.
        guard let left = purchase.refundableQuantity, kind != .free else { return purchase.quantity }
        return (0...purchase.quantity).contains(left) ? left : nil
    }

    /// What Google waits for; of a product that the catalogue does not list the least that keeps it from a refund.
    private func duty(
        after purchase: GoogleProductPurchase, of type: ProductType?, _ storeProductID: StoreProductID,
        token: PurchaseToken
    ) -> StoreDuty? {
        guard purchase.purchaseState == Self.purchased else { return nil }
        let kind: StoreDuty.Kind
        if type == .consumable, consumption == .server {
            if purchase.consumptionState == 1 { return nil }
            kind = .googleConsume
        } else {
            if purchase.acknowledgementState == 1 || purchase.consumptionState == 1 { return nil }
            kind = .googleAcknowledge
        }
        return StoreDuty(kind, package: package, storeProductID: storeProductID, token: token)
    }

    /// The duty to tell with a purchase about which something else is not known.
    ///
    /// Also of one that needs none any more: repeating the least one is harmless, and none would say that Google has to
    /// be asked again.
    private func knownDuty(
        after purchase: GoogleProductPurchase, of type: ProductType?, _ storeProductID: StoreProductID,
        token: PurchaseToken
    ) -> StoreDuty? {
        guard purchase.purchaseState == Self.purchased else { return nil }
        return duty(after: purchase, of: type, storeProductID, token: token)
            ?? StoreDuty(.googleAcknowledge, package: package, storeProductID: storeProductID, token: token)
    }

    private func parked(_ key: PurchaseKey, duty: StoreDuty? = nil) -> Verdict {
        .indeterminate(retryAfter: limits.parkedDelay, cause: .unknownState, knownKey: key, duty: duty)
    }
}
