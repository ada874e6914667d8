import ServiceRuntime

extension Grants {
    /// Writes `"grants":{"gems":"550"}` and, when there are any, `"entitlements":["…"]`.
    ///
    /// Amounts are text: some JSON readers, Lua's cjson among them, turn large numbers into rounded ones.
    func write(to writer: inout JSONWriter) {
        writer.member(
            "grants",
            object: { writer in
                for grant in currencies {
                    writer.member(dynamic: grant.currency.rawValue, String(grant.amount))
                }
            })
        guard !entitlements.isEmpty else { return }
        writer.member(
            "entitlements",
            array: { writer in
                for entitlement in entitlements { writer.element(entitlement.rawValue) }
            })
    }

    /// Reads what `write` wrote from the same object.
    init(within view: JSONView) throws(JSONError) {
        self.init()
        for (key, value) in try view.object("grants").members() {
            guard let currency = CurrencyCode(rawValue: key) else { throw value.error("is not a currency code") }
            guard let amount = Int64(try value.string()), abs(amount) <= Limits.amountMax else {
                throw value.error("must be an integer within 2^53 - 1, as text")
            }
            currencies.append(CurrencyAmount(currency, amount))
        }
        for element in try view.optionalElements("entitlements") ?? [] {
            entitlements.append(try element.identifier(EntitlementID.self))
        }
    }
}
