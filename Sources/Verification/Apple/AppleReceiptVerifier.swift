import Commerce
import HTTP
import ServiceRuntime

/// Old base64 receipts, through Apple's verifyReceipt.
///
/// One receipt can hold many purchases, and each gets a verdict of its own: the player paid for each, and an old app may
/// hand in only one receipt for all. Production is asked first, as Apple advises; 21007 and 21008 send us to the
/// other environment once.
@LoopActor
final class AppleReceiptVerifier {
    private let urls: [StoreEnvironment: String]
    private let environments: Set<StoreEnvironment>
    private let sharedSecret: Secret?
    private let endpoint: StoreEndpoint
    private let clock: WallClock
    private let limits: VerificationLimits

    init(_ configuration: AppleConfiguration, endpoint: StoreEndpoint, limits: VerificationLimits, clock: WallClock) {
        urls = [.production: configuration.receiptProductionURL, .sandbox: configuration.receiptSandboxURL]
        environments = configuration.environments
        sharedSecret = configuration.sharedSecret
        self.endpoint = endpoint
        self.limits = limits
        self.clock = clock
    }

    /// What one environment said.
    private enum Reply {
        case receipt(AppleReceiptAnswer, from: StoreEnvironment)
        case failed(AppleErrorClass, retryAfter: Duration?)
    }

    func verify(_ judge: AppleJudge, attempt: VerificationAttempt) async -> Verdict {
        let body = requestBody(judge.rules.submission.receipt.text)
        let first = environments.contains(.production) ? StoreEnvironment.production : .sandbox
        let second = first == .production ? StoreEnvironment.sandbox : .production
        var reply = await ask(first, body)
        if case .failed(.otherEnvironment, _) = reply {
            guard environments.contains(second) else { return .rejected(.wrongEnvironment) }
            reply = await ask(second, body)
        }
        switch reply {
        case .failed(let errorClass, let retryAfter):
            return errorClass.verdict(retryAfter: retryAfter, key: nil, attempt: attempt, limits)
        case .receipt(let answer, let asked):
            return verdict(on: answer, from: asked, judge)
        }
    }

    // MARK: Judging

    private func verdict(
        on answer: AppleReceiptAnswer, from asked: StoreEnvironment, _ judge: AppleJudge
    ) -> Verdict {
        guard let bundleID = answer.bundleID, judge.bundleIDs.contains(bundleID) else { return .rejected(.wrongApp) }
        let environment = answer.environment ?? asked.rawValue
        guard judge.environment(named: environment) != nil else { return .rejected(.wrongEnvironment) }
        guard !answer.purchases.isEmpty else { return .rejected(.noPurchaseInReceipt) }

        // Answered by what the request names (all, when it names nothing). What is good beside it is credited along with
        // it, and what is open keeps the receipt open: "finish" would end these, too. What is refused there does neither.
        var claimed: [Verdict] = []
        var others: [Verdict] = []
        var unnamed: [PurchaseKey?] = []
        var keys: Set<PurchaseKey> = []
        for purchase in answer.purchases {
            let (verdict, isClaimed) = self.verdict(on: purchase, of: bundleID, in: environment, judge)
            if case .verified(let purchase) = verdict, !keys.insert(purchase.key).inserted { continue }
            if isClaimed {
                claimed.append(verdict)
                continue
            }
            unnamed.append(verdict.knownKey)
            if case .rejected = verdict { continue }
            others.append(verdict)
        }
        if let only = claimed.first {
            return claimed.count + others.count == 1 ? only : .several(claimed: claimed, others: others)
        }
        // Nothing is credited for a request that names nothing of what is here. What was credited before is known by its
        // key. A name that the catalogue does not have is no mismatch, as in `Catalogue.match`.
        let named = judge.rules.submission.product
        let isKnown = named.map { judge.rules.catalogue.product($0) != nil } ?? false
        let parts = unnamed.map { key in
            isKnown
                ? Verdict.rejected(.productMismatch, knownKey: key)
                : .indeterminate(
                    retryAfter: limits.parkedDelay, cause: .unknownProduct, product: named?.rawValue, knownKey: key)
        }
        return .several(claimed: parts, others: [])
    }

    /// The verdict on one entry, and whether it is the product that the request names (any, when it names none).
    private func verdict(
        on purchase: AppleReceiptPurchase, of bundleID: String, in environment: String, _ judge: AppleJudge
    ) -> (Verdict, isClaimed: Bool) {
        let rules = judge.rules
        let product = purchase.productID.flatMap {
            rules.catalogue.product(store: .appStore, storeProductID: $0)
        }
        // An entry that names no known product may be the claimed one only when the catalogue has no name for that; one
        // whose product cannot be read may be any.
        let isClaimed =
            if let claimed = rules.submission.product, purchase.productID != nil {
                product.map { $0.id == claimed }
                    ?? (rules.catalogue.product(claimed)?.storeProductIDs[.appStore] == nil)
            } else { true }
        guard case .entry(let entry) = purchase else {
            return (.indeterminate(retryAfter: limits.parkedDelay, cause: .unknownState), isClaimed)
        }
        let transaction = AppleTransaction(
            entry, bundleID: bundleID, environment: environment, catalogueType: product?.type)
        return (judge.forWholeReceipt.verdict(on: transaction), isClaimed)
    }

    // MARK: Asking

    private func requestBody(_ receipt: String) -> [UInt8] {
        var body = JSONWriter(capacity: receipt.utf8.count + 128)
        body.object { body in
            body.member("receipt-data", receipt)
            if let sharedSecret { body.member("password", sharedSecret.text) }
            body.member("exclude-old-transactions", true)
        }
        return body.bytes
    }

    private func ask(_ environment: StoreEnvironment, _ body: [UInt8]) async -> Reply {
        let request = OutgoingRequest(
            .post, urls[environment, default: ""],
            headers: [("Content-Type", "application/json"), ("Accept", "application/json")], body: body,
            deadline: limits.callDeadline, answerBytesMax: limits.answerBytesMax)
        guard let answer = await endpoint.send(request) else { return .failed(.retrySoon, retryAfter: nil) }
        guard (200...299).contains(answer.status) else {
            // Whatever is wrong with a receipt is told in a 200, so another status never speaks about the receipt. The
            // sandbox stands in as the environment because a 401 here sends nobody elsewhere.
            let errorClass = AppleErrorClass(status: answer.status, errorCode: nil, environment: .sandbox)
            endpoint.count(errorClass.label, status: answer.status)
            let retryAfter = StoreEndpoint.retryAfter(answer, now: clock.now)
            return .failed(errorClass, retryAfter: retryAfter)
        }
        guard let json = try? JSONView.parse(answer.body), let receipt = try? AppleReceiptAnswer(json) else {
            endpoint.count("unusable", status: answer.status)
            return .failed(.retrySoon, retryAfter: nil)
        }
        if let errorClass = AppleErrorClass.receiptStatus(receipt.status, isRetryable: receipt.isRetryable) {
            endpoint.count(errorClass.label, status: answer.status, detail: String(receipt.status))
            return .failed(errorClass, retryAfter: nil)
        }
        endpoint.countSuccess()
        return .receipt(receipt, from: environment)
    }
}
