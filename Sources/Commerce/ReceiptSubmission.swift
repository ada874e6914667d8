/// A receipt handed in for a player: what somebody claims, before anybody trusts it.
public struct ReceiptSubmission: Sendable, Equatable {
    /// Who is to be credited.
    public let player: PlayerID
    /// The product the client says it bought; must match what the store says, when given.
    public let product: ProductID?
    /// The proof.
    public let receipt: Receipt
    /// The store product that the client's own words name; tells Google's API where to look, and no more.
    public let storeProductHint: StoreProductID?
    /// The token that the game put into the purchase for this player, if it does not use the default.
    public let accountToken: String?

    /// The store that can check the receipt.
    public var store: Store { receipt.store }

    /// Hands in a receipt.
    public init(
        player: PlayerID, product: ProductID?, receipt: Receipt, storeProductHint: StoreProductID? = nil,
        accountToken: String? = nil
    ) {
        self.player = player
        self.product = product
        self.receipt = receipt
        self.storeProductHint = storeProductHint
        self.accountToken = accountToken
    }

    /// The same player and receipt, with no product named.
    public var withoutProduct: ReceiptSubmission {
        ReceiptSubmission(player: player, product: nil, receipt: receipt, accountToken: accountToken)
    }

    /// The bytes whose SHA-256 names the submission (see `SubmissionID`).
    ///
    /// Player id, store (`apple` or `google`), product id (empty when not given) and normalised receipt, each as UTF-8
    /// behind its length as four bytes, big-endian; then, only if one of them is given, the store's product id and the
    /// account token in the same way. Length-prefixed, so that no two submissions share their bytes. All that the verdict
    /// depends on is in it: a request that was corrected must not be answered with the "no" to the one before.
    public var canonicalBytes: [UInt8] {
        let product = product?.rawValue ?? ""
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32 + player.rawValue.utf8.count + product.utf8.count + receipt.text.utf8.count)
        var parts = [player.rawValue, store.rawValue, product, receipt.text]
        if storeProductHint != nil || accountToken != nil {
            parts += [storeProductHint?.rawValue ?? "", accountToken ?? ""]
        }
        for text in parts {
            withUnsafeBytes(of: UInt32(text.utf8.count).bigEndian) { bytes.append(contentsOf: $0) }
            bytes.append(contentsOf: text.utf8)
        }
        return bytes
    }
}
