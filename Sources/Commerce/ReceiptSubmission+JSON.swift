public import ServiceRuntime

extension ReceiptSubmission {
    /// Reads a submission: the body of `POST /shop/purchase` and the job that any program may `LPUSH`.
    ///
    /// | field | | |
    /// |---|---|---|
    /// | `userId` | required | player id |
    /// | `receiptData` | required | see `Receipt.infer` |
    /// | `productId` | optional for Apple; Google needs it, or `storeProductId`, or the original JSON | product of the catalogue |
    /// | `platform` or `store` | optional | `ios`, `android`; `apple`, `google` |
    /// | `storeProductId` | optional | the store's name of the product |
    /// | `accountToken` | optional | 1…64 printable characters of ASCII |
    ///
    /// - Throws: `JSONError` with the field's path and the reason. Unknown fields are refused: a misspelt
    ///   `acountToken` must not silently lose its meaning.
    public init(json view: JSONView) throws(JSONError) {
        try view.object()
        if let key = view.unknownKeys(besides: Self.fields).first, let field = view[key] {
            throw field.error("is not a known field")
        }
        let player = try view.identifier("userId", PlayerID.self)
        let product = try view.optionalIdentifier("productId", ProductID.self)
        let hint = try view.optionalIdentifier("storeProductId", StoreProductID.self)
        let store = try Self.namedStore(view)
        let accountToken = try Self.accountToken(view)
        let field = try view.required("receiptData")
        let inferred: Receipt.Inferred
        do throws(ReceiptMistake) {
            inferred = try Receipt.infer(try Self.text(field), store: store)
        } catch {
            throw field.error(error.reason)
        }
        let storeProduct = hint ?? inferred.storeProductID
        if inferred.receipt.kind == .purchaseToken, product == nil, storeProduct == nil {
            throw JSONError(reason: "or storeProductId is needed with a bare purchase token", path: "productId")
        }
        self.init(
            player: player, product: product, receipt: inferred.receipt, storeProductHint: storeProduct,
            accountToken: accountToken)
    }

    /// The submission as a job for the list `pending:<store>`; `init(json:)` reads it back.
    public var jobJSON: [UInt8] {
        var writer = JSONWriter(capacity: receipt.text.utf8.count + 192)
        writer.object { writer in
            writer.member("userId", player.rawValue)
            writer.member("store", store.rawValue)
            writer.member("productId", product?.rawValue)
            writer.member("storeProductId", storeProductHint?.rawValue)
            writer.member("accountToken", accountToken)
            writer.member("receiptData", receipt.text)
        }
        return writer.bytes
    }

    private static let fields = [
        "userId", "receiptData", "productId", "platform", "store", "storeProductId", "accountToken",
    ]

    private static func text(_ field: JSONView) throws(ReceiptMistake) -> String {
        do throws(JSONError) {
            return try field.string(maxBytes: Limits.appReceiptBytesMax)
        } catch {
            throw ReceiptMistake(error.reason)
        }
    }

    private static func namedStore(_ view: JSONView) throws(JSONError) -> Store? {
        var named: Store?
        if let field = try view.optional("platform") {
            named = Store(platform: try field.string())
            if named == nil { throw field.error("must be ios or android") }
        }
        if let field = try view.optional("store") {
            guard let store = Store(rawValue: try field.string()) else { throw field.error("must be apple or google") }
            if let named, named != store { throw field.error("contradicts platform") }
            named = store
        }
        return named
    }

    private static func accountToken(_ view: JSONView) throws(JSONError) -> String? {
        guard let field = try view.optional("accountToken") else { return nil }
        let text = try field.string(maxBytes: Limits.accountTokenBytesMax)
        guard !text.isEmpty else { throw field.error("is empty") }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw field.error("may contain only printable ASCII without spaces")
        }
        return text
    }
}
