import Commerce
import Redis
import ServiceRuntime

/// One call of `finish.lua`: its five arguments, and what its reply means.
struct CreditArguments {
    let arguments: [RedisArgument]
    private let currencies: [CurrencyCode]

    init(_ purchase: VerifiedPurchase, submission: SubmissionID) {
        let grants = purchase.grants
        precondition(
            grants.currencies.allSatisfy { (0...Limits.amountMax).contains($0.amount) },
            "a purchase grants amounts within 0...2^53 - 1")
        currencies = grants.currencies.map(\.currency)
        let mark = RedisArgument.bytes(purchase.key.digest)
        let entry = RedisArgument.bytes(LedgerEntry(crediting: purchase, submission: submission).openJSON)
        if let only = grants.currencies.first, grants.currencies.count == 1, grants.entitlements.isEmpty {
            arguments = [mark, entry, .string(only.currency.rawValue), .int(only.amount), ""]
            return
        }
        precondition(Set(currencies).count == currencies.count, "a purchase grants a currency once")
        let words =
            grants.currencies.map { "\($0.currency.rawValue)=\($0.amount)" }
            + grants.entitlements.map { "+" + $0.rawValue }
        // A purchase that grants nothing still gets its mark and its entry: a blank is no word.
        arguments = [mark, entry, "", "", .string(words.isEmpty ? " " : words.joined(separator: " "))]
    }

    /// Reads `{1, position, balance...}` or `{0, position, entry, balance...}`.
    func outcome(of reply: RedisValue) throws(LedgerError) -> CreditOutcome {
        guard let parts = reply.elements, parts.count >= 2, let position = parts[1].int else {
            throw .damaged("a credit's reply has another shape")
        }
        switch parts[0] {
        case .integer(1):
            return .credited(position: position, balances: try balances(parts[2...]))
        case .integer(0) where parts.count >= 3:
            return .alreadyCredited(
                position: position, entry: Self.entry(in: parts[2]), balances: try balances(parts[3...]))
        default:
            throw .damaged("a credit's reply has another shape")
        }
    }

    private func balances(_ values: ArraySlice<RedisValue>) throws(LedgerError) -> [CurrencyAmount] {
        guard values.count == currencies.count else { throw .damaged("a credit's reply has another shape") }
        var balances: [CurrencyAmount] = []
        for (currency, value) in zip(currencies, values) {
            guard let amount = value.int else { throw .damaged("a balance is not an integer") }
            balances.append(CurrencyAmount(currency, amount))
        }
        return balances
    }

    /// An entry out of a list; nil when this version cannot read it.
    static func entry(in value: RedisValue) -> LedgerEntry? {
        guard let bytes = value.bytes else { return nil }
        do throws(JSONError) {
            return try LedgerEntry(json: try JSONView.parse(bytes))
        } catch {
            return nil
        }
    }
}
