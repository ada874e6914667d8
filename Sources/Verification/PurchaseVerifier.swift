public import Commerce
public import HTTP
public import ServiceRuntime
import Signing

/// Asks the stores whether a receipt is good, and tells them what became of it.
///
/// The one door of this module: behind it are wire formats, tokens, environments and error tables of two stores, in
/// front of it only ``Verdict`` and ``DutyOutcome``. Three rules shape everything inside. What a client claims decides
/// nothing: product, quantity, state and owner come from the store's signed or served answer. A "no" is final and is
/// said only when the *purchase* is bad; when a network, a quota, a key or an answer is bad, the verdict is
/// indeterminate and somebody can try again. And what is not understood (a new state, a new product type, a number
/// that makes no sense) is neither credited nor refused, but parked.
///
/// It holds no state that matters: access tokens and certificate chains are caches, receipts are not remembered. A
/// crash in the middle of a call loses nothing, since verifying is a read and duties may be repeated.
@LoopActor
public final class PurchaseVerifier {
    private let configuration: VerificationConfiguration
    private let transactions: AppleVerifier?
    private let appReceipts: AppleReceiptVerifier?
    private let google: GoogleVerifier?

    /// Makes a verifier; nothing is sent until the first receipt.
    ///
    /// - Parameters:
    ///   - configuration: whose app, which stores, whom to credit.
    ///   - http: the client for all calls; its TLS settings are the only ones.
    ///   - logger: gets the stores' refusals of us at a bounded rate. Warnings of the configuration are for whoever read
    ///     it to tell, together with those about its other parts.
    ///   - metrics: `teller_store_requests_total{store,endpoint,class}` and `teller_store_request_seconds`.
    ///   - clock: the time for tokens, signatures and Retry-After.
    /// - Throws: `VerificationConfigurationError` with every mistake of the configuration.
    public convenience init(
        _ configuration: VerificationConfiguration, http: HTTPClient, logger: Logger, metrics: Metrics,
        clock: WallClock = .system
    ) throws(VerificationConfigurationError) {
        try self.init(
            configuration, transport: { request throws(HTTPClientError) in try await http.send(request) },
            logger: logger, metrics: metrics, clock: clock)
    }

    /// The same over any transport: tests answer by themselves and see every request.
    package init(
        _ configuration: VerificationConfiguration, transport: @escaping StoreTransport, logger: Logger,
        metrics: Metrics, clock: WallClock = .system
    ) throws(VerificationConfigurationError) {
        let mistakes = configuration.findings().filter { $0.severity == .mistake }
        guard mistakes.isEmpty else { throw VerificationConfigurationError(mistakes: mistakes) }
        let limits = configuration.limits
        let endpoint = { (store: Store, name: String) in
            StoreEndpoint(store, name, transport: transport, logger: logger, metrics: metrics)
        }
        self.configuration = configuration
        do throws(KeyError) {
            transactions = try configuration.apple.map { apple throws(KeyError) in
                try AppleVerifier(
                    apple, endpoint: endpoint(.appStore, "transactions.get"), limits: limits, clock: clock)
            }
            google = try configuration.google.map { google throws(KeyError) in
                try GoogleVerifier(google, limits: limits, endpoint: { endpoint(.googlePlay, $0) }, clock: clock)
            }
        } catch {
            // `findings` has parsed the same keys, so this cannot happen; refusing to run is right all the same.
            let finding = ConfigurationFinding(severity: .mistake, field: "keys", message: "cannot be read")
            throw VerificationConfigurationError(mistakes: [finding])
        }
        appReceipts = configuration.apple.map { apple in
            AppleReceiptVerifier(
                apple, endpoint: endpoint(.appStore, "verifyReceipt"), limits: limits, clock: clock)
        }
    }

    /// Whether the store stands behind a receipt, and what it is then worth.
    ///
    /// Never throws and never says no for a reason that is not the purchase's own. Changes nothing at the store, so it
    /// may be repeated at any time, also for a receipt that was credited before.
    ///
    /// - Parameters:
    ///   - submission: the receipt, and for whom it is presented.
    ///   - catalogue: the products of now.
    ///   - attempt: which look this is; unknown purchases are refused only after several looks.
    /// - Returns: what the store says, with the purchase's key wherever its identity was proved.
    public func verify(
        _ submission: ReceiptSubmission, catalogue: Catalogue, attempt: VerificationAttempt = .first
    ) async -> Verdict {
        let rules = PurchaseRules(
            submission: submission, catalogue: catalogue, sandbox: configuration.sandbox,
            accountTokenNamespace: configuration.accountTokenNamespace)
        switch submission.receipt.kind {
        case .purchaseToken:
            guard let google else { return storeNotConfigured }
            return await google.verify(rules, attempt: attempt)
        case .signedTransaction:
            guard let transactions, let judge = appleJudge(rules) else { return storeNotConfigured }
            return await transactions.verify(judge, attempt: attempt)
        case .appReceipt:
            guard let appReceipts, let judge = appleJudge(rules) else { return storeNotConfigured }
            return await appReceipts.verify(judge, attempt: attempt)
        }
    }

    /// Tells the store that a purchase was credited, so that it is neither refunded nor blocked.
    ///
    /// To be called after the credit and until it is `done` or `impossible`; repeating it is harmless.
    ///
    /// - Parameters:
    ///   - duty: what to tell, as it came with the verified purchase.
    ///   - attempt: which try this is.
    /// - Returns: whether the store knows now.
    public func perform(_ duty: StoreDuty, attempt: VerificationAttempt = .first) async -> DutyOutcome {
        guard let google else {
            return .retry(after: configuration.limits.configurationDelay, cause: .ourConfiguration)
        }
        return await google.perform(duty, attempt: attempt)
    }

    private func appleJudge(_ rules: PurchaseRules) -> AppleJudge? {
        configuration.apple.map { apple in
            AppleJudge(
                bundleIDs: apple.bundleIDs, environments: apple.environments, rules: rules,
                limits: configuration.limits)
        }
    }

    private var storeNotConfigured: Verdict {
        .indeterminate(retryAfter: configuration.limits.configurationDelay, cause: .ourConfiguration)
    }
}
