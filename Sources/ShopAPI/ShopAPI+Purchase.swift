import Commerce
import HTTP
import Jobs
import Ledger
import ServiceRuntime
import Signing

/// `POST /shop/purchase` and `GET /shop/purchases/{submissionId}`.
extension ShopAPI {
    func purchase(_ request: IncomingRequest, _ caller: Caller) async throws -> OutgoingResponse {
        let submission = try submission(in: request)
        let id = SubmissionID(digest: Digest.sha256(submission.canonicalBytes))
        if let refusal = refusal(ofProductIn: submission) {
            // Taken off the catalogue since? What was credited stays credited.
            guard let known = try await current(id), known.status.state == .credited else { throw refusal }
            return try await respond(Known(status: known.status, wasFinal: true), id)
        }
        let wait = wait(asked: request.header("Prefer"))
        guard wait > .zero, !isStopping else {
            return try await respond(try await enqueue(submission, id, request.body), id)
        }

        guard caller.waits < caller.key.waitsMax else {
            throw Refusal(
                .tooManyRequests, detail: "The key has too many waiting requests; send Prefer: wait=0.",
                retryAfter: .seconds(1))
        }
        caller.waits += 1
        let waiter = waiters.register(id.rawValue)
        defer {
            caller.waits -= 1
            waiters.remove(waiter)
        }
        let deadline = ContinuousClock.now + wait
        var known = try await enqueue(submission, id, request.body)
        // Also news: one more purchase of an app receipt is credited, and another one keeps it open, perhaps for days.
        let credits = known.status.credits.count
        while known.status.state == .pending, known.status.credits.count == credits, !isStopping,
            await waiters.wait(waiter, until: deadline)
        {
            known = try await news(of: id, for: submission.player) ?? known
        }
        if known.status.state == .pending { known = try await current(id) ?? known }
        return try await respond(known, id)
    }

    func poll(_ request: IncomingRequest, _ caller: Caller) async throws -> OutgoingResponse {
        guard let text = request.pathParameters["submissionId"], let id = SubmissionID(rawValue: text),
            let known = try await current(id)
        else { throw Refusal(.unknownSubmission, detail: "It never arrived here, or is older than 24 hours.") }
        if let user = request.query("userId"), user != known.status.player.rawValue {
            throw Refusal(.unknownSubmission, detail: "It never arrived here, or is older than 24 hours.")
        }
        return try await respond(known, id)
    }

    /// How long a request waits: what it prefers (RFC 7240 §4.3), else the default, at most the maximum.
    private func wait(asked header: String?) -> Duration {
        guard let seconds = header.flatMap(Prefer.wait(in:)) else { return configuration.waitDefault }
        return min(.seconds(min(seconds, 3600)), configuration.waitMax)
    }

    // MARK: - In

    private func submission(in request: IncomingRequest) throws -> ReceiptSubmission {
        guard ContentType.matches(request.header("Content-Type"), "application/json") else {
            throw Refusal(.unsupportedMediaType, detail: "Send Content-Type: application/json.")
        }
        let submission: ReceiptSubmission
        do {
            submission = try ReceiptSubmission(
                json: JSONView.parse(request.body, depthMax: Limits.bodyDepthMax))
        } catch {
            throw Refusal(.malformedRequest, detail: "\(error)")
        }
        guard submission.receipt.kind == .appReceipt || request.body.count <= Limits.bodyBytesMax else {
            throw Refusal(.bodyTooLarge, detail: "At most \(Limits.bodyBytesMax) bytes without a legacy app receipt.")
        }
        return submission
    }

    private func refusal(ofProductIn submission: ReceiptSubmission) -> Refusal? {
        guard let id = submission.product else { return nil }
        guard let product = catalogue.product(id) else {
            return Refusal(.unknownProduct, detail: "productId: not in the catalogue.")
        }
        guard product.storeProductIDs[submission.store] != nil else {
            return Refusal(.productNotInStore, detail: "productId: not sold in this store.")
        }
        return nil
    }

    /// Queues the receipt, unless its result is known or it is queued already.
    ///
    /// The job is the request's body as it came: both have the same format, and the worker reads it with the same code.
    private func enqueue(_ submission: ReceiptSubmission, _ id: SubmissionID, _ body: [UInt8]) async throws -> Known {
        let pending = SubmissionStatus(.pending, player: submission.player)
        let outcome = try await jobs.enqueue(
            body, queue: submission.store.rawValue, submission: id.rawValue,
            pendingStatus: pending.json)
        switch outcome {
        case .enqueued:
            metrics.queued.increment()
            return Known(status: pending, wasFinal: false)
        case .alreadyCredited(let status), .alreadyPending(let status), .recentlyDecided(let status):
            let status = try SubmissionStatus(json: JSONView.parse(status))
            return Known(status: status, wasFinal: status.state != .pending)
        case .full:
            throw Refusal(.queueFull, detail: "Try again shortly.", retryAfter: .seconds(2))
        }
    }

    // MARK: - Out

    /// A submission's status, whether it was final before this request came, and the player's wallet if it was read with it.
    struct Known {
        let status: SubmissionStatus
        let wasFinal: Bool
        var wallet: Wallet?
    }

    private func current(_ id: SubmissionID) async throws -> Known? {
        guard let bytes = try await jobs.status(of: id.rawValue) else { return nil }
        return Known(status: try SubmissionStatus(json: JSONView.parse(bytes)), wasFinal: false)
    }

    /// The status of a submission of which something was published, and in the same round trip behind it the wallet to tell.
    private func news(of id: SubmissionID, for player: PlayerID) async throws -> Known? {
        async let wallet = ledger.wallet(of: player, entitlements: false)
        var known = try await current(id)
        // One that cannot be read is missed, if at all, by who needs it: not every answer has a balance.
        known?.wallet = try? await wallet
        return known
    }

    private func respond(_ known: Known, _ id: SubmissionID) async throws -> OutgoingResponse {
        let status = known.status
        switch status.state {
        case .credited:
            metrics.credited.increment()
            return try await credited(known, id)
        case .pending, .awaitingPayment:
            metrics.pending.increment()
            return try await pending(known, id)
        case .rejected:
            let reason = Reason.rejected(status.reason ?? .malformedReceipt)
            throw Refusal(
                reason, detail: reason.row.title + ".", submission: id, inWallet: try await inWallet(known),
                isAllInWallet: status.isAllInWallet)
        case .dead:
            let cause = [status.cause?.rawValue, status.awaitedProduct].compactMap { $0 }.joined(separator: " ")
            throw Refusal(
                .parked,
                detail: cause.isEmpty
                    ? "It could not be verified for too long, or crashed workers."
                    : "It has waited too long: \(cause).",
                submission: id, inWallet: try await inWallet(known))
        }
    }

    private func credited(_ known: Known, _ id: SubmissionID) async throws -> OutgoingResponse {
        let status = known.status
        let wallet = try await wallet(known)
        var writer = JSONWriter(capacity: 384)
        writer.object { writer in
            writer.member("status", status.state.rawValue)
            if let first = status.credits.first {
                writer.member("transactionId", first.transactionID)
                writer.member("productId", first.product.rawValue)
                writer.member("granted", amounts: first.grants.currencies)
                if !first.grants.entitlements.isEmpty {
                    writer.member("entitlements", texts: first.grants.entitlements.map(\.rawValue))
                }
                if let currency = first.grants.currencies.first?.currency {
                    writer.member("newBalance", wallet.balance(of: currency))
                }
            }
            writer.member("balances", amounts: wallet.balances)
            writer.member("alreadyProcessed", known.wasFinal || status.isAlreadyProcessed)
            writer.member("clientAction", ClientAction.finish.rawValue)
            writer.member("submissionId", id.rawValue)
            if status.credits.count > 1 { writer.member("purchases", credits: status.credits) }
        }
        return .json(200, writer.bytes)
    }

    /// "keep", also when some purchases of the receipt are in the wallet: its others are not, and "finish" would end them.
    ///
    /// What is not paid yet is decided: nobody asks the store again until the receipt is handed in again, so there is nothing
    /// to poll, and no use in asking sooner than the queue looks again.
    private func pending(_ known: Known, _ id: SubmissionID) async throws -> OutgoingResponse {
        let status = known.status
        let inWallet = try await inWallet(known)
        let isUnpaid = status.state == .awaitingPayment
        let retryAfter =
            isUnpaid ? jobs.lookAgainInterval.inMilliseconds : max(status.retryAfterMilliseconds ?? 1000, 1000)
        var writer = JSONWriter(capacity: 160)
        writer.object { writer in
            writer.member("status", status.state.rawValue)
            writer.member("submissionId", id.rawValue)
            writer.member("retryAfterMs", retryAfter)
            writer.member("clientAction", ClientAction.keep.rawValue)
            writer.member("cause", status.cause?.rawValue)
            writer.member("product", status.awaitedProduct)
            inWallet?.write(to: &writer)
        }
        var response = OutgoingResponse.json(202, writer.bytes)
        if !isUnpaid { response.headers.append(("Location", "/shop/purchases/\(id.rawValue)")) }
        return response
    }

    private func inWallet(_ known: Known) async throws -> InWallet? {
        guard !known.status.credits.isEmpty else { return nil }
        return InWallet(credits: known.status.credits, balances: try await wallet(known).balances)
    }

    /// The player's balances, without entitlements.
    private func wallet(_ known: Known) async throws -> Wallet {
        if let wallet = known.wallet { return wallet }
        return try await ledger.wallet(of: known.status.player, entitlements: false)
    }
}

/// What is in the wallet of a receipt whose answer is not "credited".
struct InWallet: Sendable {
    let credits: [SubmissionStatus.Credit]
    let balances: [CurrencyAmount]

    func write(to writer: inout JSONWriter) {
        writer.member("balances", amounts: balances)
        writer.member("purchases", credits: credits)
    }
}
