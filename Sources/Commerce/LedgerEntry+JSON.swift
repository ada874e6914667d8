public import ServiceRuntime

extension LedgerEntry {
    /// The entry as JSON without its last value and closing brace: it ends with `"creditedAtMs":`.
    ///
    /// The time of a credit is Redis's, known only inside the script that credits. Because this member is the last
    /// one, the script completes the entry by appending digits and a brace and never has to read JSON.
    public var openJSON: [UInt8] {
        var bytes = json(creditedAt: 0)
        bytes.removeLast(2)
        return bytes
    }

    /// The entry as compact JSON.
    public var json: [UInt8] { json(creditedAt: creditedAtMilliseconds) }

    private func json(creditedAt milliseconds: Int64) -> [UInt8] {
        var writer = JSONWriter(capacity: 768)
        writer.object { writer in
            writer.member("v", Self.schemaVersion)
            writer.member("kind", kind.rawValue)
            writer.member("key", key)
            writer.member("store", store.rawValue)
            writer.member("environment", environment.rawValue)
            writer.member("transactionId", transactionID?.rawValue)
            // A first purchase starts its own chain: the same id twice would be a tenth of the entry.
            if originalTransactionID != transactionID {
                writer.member("originalTransactionId", originalTransactionID?.rawValue)
            }
            writer.member("orderId", orderID?.rawValue)
            writer.member("productId", product.rawValue)
            writer.member("storeProductId", storeProductID.rawValue)
            writer.member("quantity", quantity)
            grants.write(to: &writer)
            writer.member("priceMilliunits", priceMilliunits)
            writer.member("priceCurrency", priceCurrency)
            writer.member("storefront", storefront)
            if isTest { writer.member("test", true) }
            if isPromo { writer.member("promo", true) }
            writer.member("purchasedAtMs", purchasedAtMilliseconds)
            writer.member("product", raw: productSnapshotJSON)
            writer.member("submissionId", submission.rawValue)
            writer.member("creditedAtMs", milliseconds)
        }
        return writer.bytes
    }

    /// Reads an entry.
    ///
    /// Fields that this version does not know are ignored; another schema version is refused.
    public init(json view: JSONView) throws(JSONError) {
        let version = try view.required("v")
        guard try version.int64() == Self.schemaVersion else {
            throw version.error("is a schema this version cannot read")
        }
        kind = try view.choice("kind", Kind.self)
        key = try view.string("key")
        store = try view.choice("store", Store.self)
        environment = try view.choice("environment", StoreEnvironment.self)
        transactionID = try view.optionalIdentifier("transactionId", TransactionID.self)
        originalTransactionID =
            try view.optionalIdentifier("originalTransactionId", TransactionID.self) ?? transactionID
        orderID = try view.optionalIdentifier("orderId", OrderID.self)
        product = try view.identifier("productId", ProductID.self)
        storeProductID = try view.identifier("storeProductId", StoreProductID.self)
        quantity = try view.int64("quantity")
        grants = try Grants(within: view)
        priceMilliunits = try view.optionalInt64("priceMilliunits")
        priceCurrency = try view.optionalString("priceCurrency")
        storefront = try view.optionalString("storefront")
        isTest = try view.optionalBool("test") ?? false
        isPromo = try view.optionalBool("promo") ?? false
        purchasedAtMilliseconds = try view.int64("purchasedAtMs")
        creditedAtMilliseconds = try view.int64("creditedAtMs")
        productSnapshotJSON = try view.object("product").serialized()
        submission = try view.identifier("submissionId", SubmissionID.self)
    }
}
