import Commerce
import Jobs
import Ledger
import ServiceRuntime
import Signing
import Verification

/// What one receipt goes through: verify → claim → finish → settle. Each step is idempotent and the order is the whole
/// argument for "exactly once":
///
/// 1. *Verify* reads. A crash here changes nothing.
/// 2. *Claim* binds the purchase to the player, for ever. Found claimed by the same player it means "somebody began",
///    never "somebody credited", so the pipeline always goes on.
/// 3. *Finish* credits the wallet once: the mark, the balance and the ledger entry change in one script or not at all.
/// 4. *Settle* drops the lease, writes the result for the client and queues the store duty, in one script. Only now
///    may anyone hear "credited"; a crash before it repeats from step 1 and finds the mark of step 3.
///
/// Bad data (a job that cannot be read) is buried with its reason. Broken infrastructure (Redis away, a store down)
/// is waited for. Neither is ever answered to the player as a "no".
@LoopActor
final class ReceiptPipeline {
    var catalogue: Catalogue

    private let jobs: JobQueue
    private let ledger: Ledger
    private let verifier: PurchaseVerifier
    private let retry: RetrySchedule
    private let logger: Logger
    private let metrics: WorkerMetrics

    init(
        jobs: JobQueue, ledger: Ledger, verifier: PurchaseVerifier, catalogue: Catalogue, retry: RetrySchedule,
        logger: Logger, metrics: Metrics
    ) {
        self.jobs = jobs
        self.ledger = ledger
        self.verifier = verifier
        self.catalogue = catalogue
        self.retry = retry
        self.logger = logger
        self.metrics = WorkerMetrics(metrics)
    }

    func process(_ lease: Lease) async {
        let began = MonotonicInstant.now
        var outcome = "left"
        do {
            outcome = lease.queue == WorkQueue.googleDuty.rawValue ? try await perform(lease) : try await credit(lease)
            metrics.settleSeconds.observe(seconds: began.elapsedSeconds)
        } catch {
            await putAside(lease, error)
        }
        metrics.count(queue: lease.queue, outcome: outcome)
    }

    /// Redis was away for longer than the patience of a step, or refuses one.
    ///
    /// Begun anew, by whoever leases it next: if it cannot even be put aside now, it is adopted or reaped later.
    private func putAside(_ lease: Lease, _ error: any Error) async {
        if lease.isWorthALine {
            logger.warning("receipt put aside", ["queue": .string(lease.queue), "error": .string("\(error)")])
        }
        noteAge(lease)
        if let error = error as? LedgerError, error.isDamage, isOverdue(lease) {
            // Damaged data do not heal by themselves: a human has to see it.
            _ = try? await jobs.bury(lease, reasons: ["no-progress", "\(error)"], status: nil)
            return
        }
        _ = try? await jobs.retry(lease, after: delay(lease, atLeast: .seconds(1)), status: nil)
    }

    private func isOverdue(_ lease: Lease) -> Bool {
        lease.attempts >= retry.attemptsMin && lease.age >= retry.horizon
    }

    /// Called for every attempt that ends without a result.
    private func noteAge(_ lease: Lease) {
        if lease.age >= retry.alarmAge { metrics.countLate(queue: lease.queue) }
    }

    // MARK: - Receipts

    private func credit(_ lease: Lease) async throws -> String {
        let submission: ReceiptSubmission
        do {
            submission = try ReceiptSubmission(json: JSONView.parse(lease.payload))
        } catch {
            // One with a submission was read by a newer version: it is kept whole, to be replayed to such a worker.
            let isUnknown = lease.submission == nil
            _ = try await jobs.bury(lease, reasons: ["malformed-job", "\(error)"], status: nil, isMalformed: isUnknown)
            return "malformed"
        }
        let id = SubmissionID(digest: Digest.sha256(submission.canonicalBytes))
        var lease = lease
        if lease.submission != id.rawValue {
            // Pushed by another program: from now on it can be polled. One that came under the name of somebody else's
            // submission must not write that one's status.
            let pending = SubmissionStatus(.pending, player: submission.player)
            lease = try await jobs.identify(lease, as: id.rawValue, pendingStatus: pending.json)
        }
        var held = HeldReceipt(lease: lease, submission: submission, id: id)
        var (tally, beside) = try await apply(held)
        if !tally.credits.isEmpty, tally.refusals.contains(.productMismatch) {
            // Something here was credited as what the request names, though the catalogue calls it otherwise by now. So
            // it names a purchase of the receipt after all, and what lies beside that one is judged, too: "finish" ends
            // it.
            let named = Set(tally.credits.map(\.position))
            held = HeldReceipt(lease: lease, submission: submission.withoutProduct, id: id)
            (tally, beside) = try await apply(held)
            tally.credits.sort { named.contains($0.position) && !named.contains($1.position) }
        }
        return try await conclude(tally, beside: beside, held)
    }

    /// Steps 1 to 3: what the request asks about, and what lies beside it.
    private func apply(_ held: HeldReceipt) async throws -> (tally: Tally, beside: Tally) {
        let verdict = await verifier.verify(
            held.submission, catalogue: catalogue, attempt: held.lease.verificationAttempt)
        var (tally, beside) = (Tally(), Tally())
        if case .several(let claimed, let others) = verdict {
            for part in claimed { try await apply(part, held, &tally) }
            for part in others { try await apply(part, held, &beside) }
        } else {
            try await apply(verdict, held, &tally)
        }
        return (tally, beside)
    }

    /// Steps 2 and 3 for one purchase of the receipt.
    private func apply(_ verdict: Verdict, _ held: HeldReceipt, _ tally: inout Tally) async throws {
        if case .verified(let purchase) = verdict { return try await credit(purchase, held, &tally) }
        if let key = verdict.knownKey, let item = try await ledger.creditedItem(of: key, in: held.submission.player) {
            // Written by a newer version: credited all the same, so not to be refused by this one.
            guard let entry = item.entry else { throw LedgerError.damaged("an entry of an unknown schema") }
            let credit = SubmissionStatus.Credit(
                entry, at: item.position, of: key, wasAlreadyCredited: try await wasThere(entry, held))
            return await apply(verdict, to: entry, credit, held, &tally)
        }
        switch verdict {
        case .rejected(let reason, _, _): tally.refusals.append(reason)
        case .awaitingPayment: tally.isUnpaid = true
        case .indeterminate(let after, let cause, let product, _, _):
            tally.open = tally.open ?? Wait(after: after, cause: cause, product: product)
        case .verified, .several: preconditionFailure("handled before")
        }
    }

    /// A purchase that is in the wallet, whatever is the matter with it now.
    ///
    /// A later refund, consumption or outage must not turn a credit into a "no". Nor may it hide the duty of a worker that
    /// died right after the credit. But a request that names another product is told so, as it was before the credit: the
    /// duty is then with the request that was credited.
    private func apply(
        _ verdict: Verdict, to entry: LedgerEntry, _ credit: SubmissionStatus.Credit, _ held: HeldReceipt,
        _ tally: inout Tally
    ) async {
        guard !held.namesAnother(than: entry, catalogue) else { return tally.mismatched.append(credit) }
        tally.credits.append(credit)
        switch await verdictOnDuty(verdict, entry, held) {
        case .verified(let purchase): if let duty = purchase.duty { tally.duties.append(duty) }
        case .rejected(_, _, let duty?), .indeterminate(_, _, _, _, let duty?): tally.duties.append(duty)
        case .indeterminate(let after, let cause, let product, _, nil) where held.submission.store == .googlePlay:
            tally.unknownDuty = Wait(after: after, cause: cause, product: product)
        case .rejected, .awaitingPayment, .indeterminate, .several: break
        }
    }

    /// The verdict that tells whether Google waits for something.
    ///
    /// Google is asked about a product. When the catalogue has another name for it than when it was credited, or none any
    /// more, the question was about the wrong one or was not asked: the entry has the right one.
    private func verdictOnDuty(_ verdict: Verdict, _ entry: LedgerEntry, _ held: HeldReceipt) async -> Verdict {
        let submission = held.submission
        guard submission.store == .googlePlay,
            catalogue.storeProductID(namedBy: submission) != entry.storeProductID
        else { return verdict }
        let corrected = ReceiptSubmission(
            player: submission.player, product: submission.product, receipt: submission.receipt,
            storeProductHint: entry.storeProductID, accountToken: submission.accountToken)
        return await verifier.verify(corrected, catalogue: catalogue, attempt: held.lease.verificationAttempt)
    }

    private func credit(_ purchase: VerifiedPurchase, _ held: HeldReceipt, _ tally: inout Tally) async throws {
        guard try await ledger.claim(purchase.key, for: held.submission.player) == .mine else {
            return tally.refusals.append(.belongsToAnotherPlayer)
        }
        switch try await ledger.credit(purchase, to: held.submission.player, submission: held.id) {
        case .credited(let position, _):
            tally.credits.append(purchase.credit(at: position, wasAlreadyCredited: false))
        case .alreadyCredited(let position, let entry, _):
            // What was granted then, whatever the catalogue says now.
            guard let entry else {
                tally.credits.append(purchase.credit(at: position, wasAlreadyCredited: true))
                break
            }
            tally.credits.append(
                SubmissionStatus.Credit(
                    entry, at: position, of: purchase.key, wasAlreadyCredited: try await wasThere(entry, held)))
        case .balanceTooLarge:
            tally.isTooLarge = true
            return
        }
        // Also when it was credited before: the worker that did so may have died before it queued the duty.
        if let duty = purchase.duty { tally.duties.append(duty) }
    }

    /// Whether a credit was there before this job, which is begun anew after a crash or a wait and then meets its own.
    ///
    /// Who hears of the credit for the first time is not told that it is an old one. A job's first sight is the front's
    /// estimate of Redis's time, some milliseconds early, so a job that was never begun before is not judged by it. That
    /// of a bare job is written down when it is reaped or put aside, after what it credited before. Then the status tells
    /// whether anybody has heard of the credit, for as long as a status lives.
    private func wasThere(_ entry: LedgerEntry, _ held: HeldReceipt) async throws -> Bool {
        let lease = held.lease
        guard lease.attempts + lease.crashes > 0, entry.submission == held.id else { return true }
        let sinceCredit = lease.firstSeen - UnixMilliseconds(entry.creditedAtMilliseconds)
        guard sinceCredit > .zero else { return false }
        guard sinceCredit + lease.age < jobs.statusLifetime else { return true }
        guard let status = try await jobs.status(of: held.id.rawValue) else { return false }
        return (try? SubmissionStatus(json: JSONView.parse(status)))?.state == .credited
    }

    /// Step 4: one answer for the whole receipt, the most cautious one that its purchases allow.
    ///
    /// "Finish" ends all of them at the client. So the receipt stays in work, with what is credited told meanwhile, for as
    /// long as one of them may still become a credit: App Store Connect knows a product that the catalogue does not, or an
    /// entry is written in a new way. A refused one holds nothing up: the money went back, it is another player's, or it is
    /// a subscription, which stays in the receipt whatever the client finishes. What is put aside is begun anew later, so
    /// its duties are found again then.
    ///
    /// What was not asked about holds the answer up, but is not the answer: who names a purchase of another player's and is
    /// credited for one that lay beside it is refused all the same.
    private func conclude(_ tally: Tally, beside: Tally, _ held: HeldReceipt) async throws -> String {
        // What lies beside what was asked about is no mismatch.
        let credits = tally.credits + beside.credits + beside.mismatched
        if let open = tally.open ?? beside.open { return try await postpone(held, open, credits: credits) }
        // When everything else is credited; a replay of the dead letter does the rest.
        if tally.isTooLarge || beside.isTooLarge {
            return try await bury(held, [RejectionReason.balanceTooLarge.rawValue], credits: credits)
        }
        if let wait = tally.unknownDuty { return try await keepForDuty(held, wait, credits: credits) }
        if tally.isUnpaid { return try await settleAwaitingPayment(held) }
        guard tally.credits.isEmpty else { return try await settle(held, credits: credits, duties: tally.duties) }
        if tally.refusals.isEmpty, !tally.mismatched.isEmpty {
            return try await reject(held, .productMismatch, credits: tally.mismatched, isAllInWallet: true)
        }
        return try await reject(held, tally.refusals.mostCautious, credits: beside.credits)
    }

    // MARK: - Ends

    private func settle(
        _ held: HeldReceipt, credits: [SubmissionStatus.Credit], duties: [StoreDuty]
    ) async throws -> String {
        let status = SubmissionStatus(.credited, player: held.submission.player, credits: credits)
        let followUps = duties.map { FollowUp(queue: WorkQueue.googleDuty.rawValue, payload: $0.json) }
        _ = try await jobs.settle(held.lease, status: status.json, followUps: followUps)
        return status.isAlreadyProcessed ? "already-credited" : "credited"
    }

    private func reject(
        _ held: HeldReceipt, _ reason: RejectionReason, credits: [SubmissionStatus.Credit], isAllInWallet: Bool = false
    ) async throws -> String {
        logger.info("receipt rejected", held.logFields(["reason": .string(reason.rawValue)]))
        let status = SubmissionStatus(
            .rejected, player: held.submission.player, reason: reason, credits: credits, isAllInWallet: isAllInWallet)
        _ = try await jobs.settle(held.lease, status: status.json)
        return reason.rawValue
    }

    private func settleAwaitingPayment(_ held: HeldReceipt) async throws -> String {
        // Not retried here: the store tells the client when the payment came, and the client hands the receipt in again.
        _ = try await jobs.settle(
            held.lease, status: SubmissionStatus(.awaitingPayment, player: held.submission.player).json)
        return "awaiting-payment"
    }

    private func postpone(
        _ held: HeldReceipt, _ wait: Wait, credits: [SubmissionStatus.Credit]
    ) async throws -> String {
        noteAge(held.lease)
        if let product = wait.product { metrics.countAwaited(held.isUnasked(catalogue) ? nil : product, wait.cause) }
        guard !isOverdue(held.lease) else {
            return try await bury(held, ["no-answer"] + wait.reasons, wait, credits: credits)
        }
        let delay = delay(held.lease, atLeast: wait.after)
        if held.lease.isWorthALine {
            logger.info(
                "receipt postponed",
                held.logFields([
                    "cause": .string(wait.reasons.joined(separator: " ")), "delayMs": .milliseconds(delay),
                ]))
        }
        let status = SubmissionStatus(
            .pending, player: held.submission.player, retryAfterMilliseconds: delay.inMilliseconds, cause: wait.cause,
            awaitedProduct: wait.product, credits: credits)
        _ = try await jobs.retry(held.lease, after: delay, status: status.json, isNews: !credits.isEmpty)
        return wait.cause.rawValue
    }

    /// Says "credited" now, and keeps the job until Google answers.
    ///
    /// Whoever credited it may have died before it queued the store duty, and only Google's answer tells whether there is
    /// one. Google refunds what it is not told about.
    private func keepForDuty(
        _ held: HeldReceipt, _ wait: Wait, credits: [SubmissionStatus.Credit]
    ) async throws -> String {
        noteAge(held.lease)
        let status = SubmissionStatus(.credited, player: held.submission.player, credits: credits)
        guard !isOverdue(held.lease) else {
            logger.error("store duty unknown", held.logFields(["cause": .string(wait.cause.rawValue)]))
            _ = try await jobs.bury(held.lease, reasons: ["duty-unknown"] + wait.reasons, status: status.json)
            return "dead"
        }
        _ = try await jobs.retry(
            held.lease, after: delay(held.lease, atLeast: wait.after), status: status.json, isNews: true)
        return wait.cause.rawValue
    }

    private func bury(
        _ held: HeldReceipt, _ reasons: [String], _ wait: Wait? = nil, credits: [SubmissionStatus.Credit]
    ) async throws -> String {
        logger.error("receipt buried", held.logFields(["reason": .string(reasons.joined(separator: ", "))]))
        let status = SubmissionStatus(
            .dead, player: held.submission.player, cause: wait?.cause, awaitedProduct: wait?.product, credits: credits)
        _ = try await jobs.bury(held.lease, reasons: reasons, status: status.json)
        return "dead"
    }

    private func delay(_ lease: Lease, atLeast floor: Duration?) -> Duration {
        retry.delay(afterAttempts: lease.attempts + 1, atLeast: floor, random: .random(in: 0..<1))
    }

    // MARK: - Store duties

    private func perform(_ lease: Lease) async throws -> String {
        let duty: StoreDuty
        do {
            duty = try StoreDuty(json: JSONView.parse(lease.payload))
        } catch {
            // Of a purchase that was credited: Google takes the money back when nobody replays it to who can read it.
            _ = try await jobs.bury(lease, reasons: ["malformed-duty", "\(error)"], status: nil)
            return "malformed"
        }
        switch await verifier.perform(duty, attempt: lease.verificationAttempt) {
        case .done:
            _ = try await jobs.settle(lease, status: nil)
            return "done"
        case .retry(let after, let cause):
            noteAge(lease)
            _ = try await jobs.retry(lease, after: delay(lease, atLeast: after), status: nil)
            return cause.rawValue
        case .impossible(let reason):
            logger.error("store duty impossible", ["duty": .string("\(duty)"), "reason": .string(reason.rawValue)])
            _ = try await jobs.bury(lease, reasons: ["impossible-duty", reason.rawValue], status: nil)
            return "impossible"
        }
    }
}

/// A receipt in this worker's hands.
private final class HeldReceipt: Sendable {
    let lease: Lease
    let submission: ReceiptSubmission
    let id: SubmissionID

    /// Whether the request names another product than the one that was credited for its receipt.
    ///
    /// Not when it names what was credited then: the catalogue may call it otherwise now.
    func namesAnother(than entry: LedgerEntry, _ catalogue: Catalogue) -> Bool {
        if submission.store == .googlePlay, let hint = submission.storeProductHint, hint != entry.storeProductID {
            return true
        }
        guard submission.product != entry.product else { return false }
        if case .mismatch = catalogue.match(entry.storeProductID, for: submission) { return true }
        return false
    }

    /// Whether the store could not be asked: a bare token, with a name that the catalogue does not have.
    func isUnasked(_ catalogue: Catalogue) -> Bool {
        submission.store == .googlePlay && catalogue.storeProductID(namedBy: submission) == nil
    }

    init(lease: Lease, submission: ReceiptSubmission, id: SubmissionID) {
        self.lease = lease
        self.submission = submission
        self.id = id
    }

    func logFields(_ more: [String: LogValue]) -> [String: LogValue] {
        more.merging([
            "submission": .string(id.rawValue), "player": .string(submission.player.rawValue),
            "store": .string(submission.store.rawValue), "attempt": .int(Int64(lease.attempts)),
        ]) { own, _ in own }
    }
}

/// What the purchases of one receipt have come to: those that the request asks about, or those beside them.
private struct Tally {
    /// In the wallet, now or before.
    var credits: [SubmissionStatus.Credit] = []
    /// In the wallet, but the request names another product.
    var mismatched: [SubmissionStatus.Credit] = []
    var duties: [StoreDuty] = []
    /// The first of those about which nothing can be said yet.
    var open: Wait?
    /// Credited, but the store must be asked again whether it waits for a duty.
    var unknownDuty: Wait?
    var isUnpaid = false
    var isTooLarge = false
    var refusals: [RejectionReason] = []
}

/// What a receipt waits for, and how long at least.
private struct Wait {
    let after: Duration?
    let cause: IndeterminateCause
    /// What to look for in the catalogue.
    let product: String?

    /// For people who look at a dead letter.
    var reasons: [String] { [cause.rawValue] + (product.map { [$0] } ?? []) }
}

extension [RejectionReason] {
    /// The reason to tell for several: one that leaves the money at the store, if there is one.
    ///
    /// Clients may finish what was paid back, and with it they would finish everything else in the receipt.
    fileprivate var mostCautious: RejectionReason {
        first { ![.refunded, .cancelled, .purchaseExpired].contains($0) } ?? first ?? .noPurchaseInReceipt
    }
}

extension SubmissionStatus.Credit {
    fileprivate init(
        _ entry: LedgerEntry, at position: Int64, of key: PurchaseKey, wasAlreadyCredited: Bool
    ) {
        self.init(
            transactionID: entry.displayID ?? key.digestHex, product: entry.product, grants: entry.grants,
            position: position, wasAlreadyCredited: wasAlreadyCredited)
    }
}

extension VerifiedPurchase {
    fileprivate func credit(at position: Int64, wasAlreadyCredited: Bool) -> SubmissionStatus.Credit {
        SubmissionStatus.Credit(
            transactionID: displayID, product: product.id, grants: grants, position: position,
            wasAlreadyCredited: wasAlreadyCredited)
    }
}

extension Lease {
    /// Whether to log that this attempt brought nothing: the first, second, fourth, eighth, … of each job.
    ///
    /// What a hundred thousand receipts wait for in an outage is said often enough by the first few lines.
    fileprivate var isWorthALine: Bool { (attempts + 1).nonzeroBitCount == 1 }

    fileprivate var verificationAttempt: VerificationAttempt {
        VerificationAttempt(number: attempts + 1, age: age)
    }
}
