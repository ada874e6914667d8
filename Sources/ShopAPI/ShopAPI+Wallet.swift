import Commerce
import HTTP
import Ledger
import ServiceRuntime

/// `GET /shop/wallet` and `GET /shop/history`.
extension ShopAPI {
    func wallet(_ request: IncomingRequest, _ caller: Caller) async throws -> OutgoingResponse {
        let player = try player(in: request)
        let wallet = try await ledger.wallet(of: player)
        var writer = JSONWriter(capacity: 192)
        writer.object { writer in
            writer.member("userId", player.rawValue)
            writer.member("balances", amounts: wallet.balances)
            writer.member("entitlements", texts: wallet.entitlements.map(\.rawValue))
        }
        return .json(200, writer.bytes)
    }

    func history(_ request: IncomingRequest, _ caller: Caller) async throws -> OutgoingResponse {
        let player = try player(in: request)
        let limit = try number(request.query("limit"), "limit", in: 1...Int64(Limits.historyPageMax)) ?? 20
        let cursor = try number(request.query("cursor"), "cursor", in: 1...Int64.max)
        let page = try await ledger.history(of: player, limit: Int(limit), before: cursor)
        var writer = JSONWriter(capacity: 512 * (page.items.count + 1))
        writer.object { writer in
            writer.member("userId", player.rawValue)
            writer.member(
                "entries",
                array: { writer in
                    for item in page.items { writer.object { $0.item(item) } }
                })
            if let next = page.cursor { writer.member("nextCursor", "\(next)") }
        }
        return .json(200, writer.bytes)
    }

    private func player(in request: IncomingRequest) throws -> PlayerID {
        guard let text = request.query("userId") else {
            throw Refusal(.malformedRequest, detail: "userId: is required.")
        }
        do {
            return try PlayerID(validating: text)
        } catch {
            throw Refusal(.malformedRequest, detail: "userId: \(error).")
        }
    }

    private func number(_ text: String?, _ name: String, in range: ClosedRange<Int64>) throws -> Int64? {
        guard let text else { return nil }
        guard let number = Int64(text), range.contains(number) else {
            throw Refusal(
                .malformedRequest,
                detail: "\(name): must be a whole number from \(range.lowerBound) to \(range.upperBound).")
        }
        return number
    }
}

extension JSONWriter {
    /// `{"gems":550}`: amounts are whole numbers of at most 2^53 − 1, exact in every JSON reader.
    mutating func member(_ key: StaticString, amounts: [CurrencyAmount]) {
        member(
            key,
            object: { writer in
                for amount in amounts { writer.member(dynamic: amount.currency.rawValue, amount.amount) }
            })
    }

    mutating func member(_ key: StaticString, texts: [String]) {
        member(
            key,
            array: { writer in
                for text in texts { writer.element(text) }
            })
    }

    /// What is in the wallet of the purchases of one receipt.
    mutating func member(_ key: StaticString, credits: [SubmissionStatus.Credit]) {
        member(
            key,
            array: { writer in
                for credit in credits {
                    writer.object { writer in
                        writer.member("transactionId", credit.transactionID)
                        writer.member("productId", credit.product.rawValue)
                        writer.member("granted", amounts: credit.grants.currencies)
                        writer.member("alreadyProcessed", credit.wasAlreadyCredited)
                    }
                }
            })
    }

    /// A ledger entry as clients see it: without the purchase key, which holds Google's purchase token.
    mutating func item(_ item: HistoryPage.Item) {
        member("position", item.position)
        // An entry of a newer schema is shown as a line of which nothing more is known, so that pages stay whole.
        guard let entry = item.entry else { return }
        member("kind", entry.kind.rawValue)
        member("transactionId", entry.displayID)
        member("orderId", entry.orderID?.rawValue)
        member("store", entry.store.rawValue)
        member("environment", entry.environment.rawValue)
        member("productId", entry.product.rawValue)
        member("storeProductId", entry.storeProductID.rawValue)
        member("quantity", entry.quantity)
        member("granted", amounts: entry.grants.currencies)
        member("entitlements", texts: entry.grants.entitlements.map(\.rawValue))
        member("purchasedAt", UnixMilliseconds(entry.purchasedAtMilliseconds).rfc3339)
        member("creditedAt", UnixMilliseconds(entry.creditedAtMilliseconds).rfc3339)
        member("submissionId", entry.submission.rawValue)
    }
}
