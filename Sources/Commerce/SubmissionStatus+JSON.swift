public import ServiceRuntime

extension SubmissionStatus {
    /// The status as compact JSON.
    public var json: [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            writer.member("state", state.rawValue)
            writer.member("userId", player.rawValue)
            writer.member("reason", reason?.rawValue)
            writer.member("retryAfterMs", retryAfterMilliseconds)
            writer.member("cause", cause?.rawValue)
            writer.member("product", awaitedProduct)
            if isAllInWallet { writer.member("allInWallet", true) }
            guard !credits.isEmpty else { return }
            writer.member(
                "credits",
                array: { writer in
                    for credit in credits { writer.object { credit.write(to: &$0) } }
                })
        }
        return writer.bytes
    }

    /// Reads what `json` wrote, here or in a newer version.
    ///
    /// While versions are exchanged one by one, an old front reads what a new worker wrote. A state or a reason that it does
    /// not know is read as "pending": the client keeps its receipt and asks again, and a newer front will know the answer.
    /// Never is it guessed to be a "no", and least of all one that lets the client finish.
    public init(json view: JSONView) throws(JSONError) {
        var state = State(rawValue: try view.string("state")) ?? .pending
        var reason: RejectionReason?
        if let text = try view.optionalString("reason") {
            reason = RejectionReason(rawValue: text)
            if reason == nil { state = .pending }
        }
        var credits: [Credit] = []
        for element in try view.optionalElements("credits") ?? [] { credits.append(try Credit(json: element)) }
        self.init(
            state, player: try view.identifier("userId", PlayerID.self), reason: reason,
            retryAfterMilliseconds: try view.optionalInt64("retryAfterMs"),
            cause: try view.optionalString("cause").flatMap(IndeterminateCause.init(rawValue:)),
            awaitedProduct: try view.optionalString("product"), credits: credits,
            isAllInWallet: try view.optionalBool("allInWallet") ?? false)
    }
}

extension SubmissionStatus.Credit {
    func write(to writer: inout JSONWriter) {
        writer.member("transactionId", transactionID)
        writer.member("productId", product.rawValue)
        grants.write(to: &writer)
        writer.member("position", position)
        if wasAlreadyCredited { writer.member("already", true) }
    }

    init(json view: JSONView) throws(JSONError) {
        self.init(
            transactionID: try view.string("transactionId"), product: try view.identifier("productId", ProductID.self),
            grants: try Grants(within: view), position: try view.int64("position"),
            wasAlreadyCredited: try view.optionalBool("already") ?? false)
    }
}
