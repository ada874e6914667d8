import Commerce
import ServiceRuntime
import Signing

/// StoreKit 2 transactions: signature, identity and state locally, then Apple's word on whether it still stands.
///
/// Forgeries, foreign apps and unwanted environments end before any call. What Apple then answers is signed as well, is
/// checked by the same code and replaces what the client sent: it is the same purchase in its newest state.
@LoopActor
final class AppleVerifier {
    /// Far enough ahead that no genuine signature's date is in the future.
    private static let tenYears: Duration = .seconds(3660 * 86_400)

    private let signatures: SignedDataVerifier
    private let api: AppleServerAPI?
    private let confirmation: AppleConfiguration.Confirmation
    private let clock: WallClock
    private let limits: VerificationLimits

    init(
        _ configuration: AppleConfiguration, endpoint: StoreEndpoint, limits: VerificationLimits, clock: WallClock
    ) throws(KeyError) {
        // Fingerprints that are none were refused with the configuration; the safe reading is Apple's root alone.
        let roots = configuration.rootFingerprints.flatMap { try? TrustedRoots(sha256Fingerprints: $0) } ?? .apple
        signatures = SignedDataVerifier(roots: roots, bytesMax: Limits.signedTransactionBytesMax)
        confirmation = configuration.confirmation
        api = try configuration.key.map { key throws(KeyError) in
            try AppleServerAPI(configuration, key: key, endpoint: endpoint, limits: limits, clock: clock)
        }
        self.limits = limits
        self.clock = clock
    }

    func verify(_ judge: AppleJudge, attempt: VerificationAttempt) async -> Verdict {
        let transaction: AppleTransaction
        switch read(judge.rules.submission.receipt.text) {
        case .success(let read): transaction = read
        case .failure(let problem): return problem.verdict(limits)
        }
        let local = judge.verdict(on: transaction)
        guard case .verified(let purchase) = local, confirmation == .online else { return local }
        guard let api else {
            return .indeterminate(
                retryAfter: limits.configurationDelay, cause: .ourConfiguration, knownKey: purchase.key)
        }
        switch await confirm(
            transaction, in: purchase.environment, judge.environments.contains(.sandbox), api)
        {
        case .signedTransaction(let signed):
            return verdict(onConfirmed: signed, of: transaction, judge, key: purchase.key)
        case .failed(let errorClass, let retryAfter):
            return errorClass.verdict(retryAfter: retryAfter, key: purchase.key, attempt: attempt, limits)
        }
    }

    // MARK: Signature

    /// Why a signed text is not a transaction we can judge.
    private enum ReadingProblem: Error {
        case malformed, badSignature, ourClock, unknownShape

        init(_ error: SignedDataError) {
            switch error.checkpoint {
            case .size, .compactForm, .header, .payload: self = .malformed
            default: self = .badSignature
            }
        }

        func verdict(_ limits: VerificationLimits) -> Verdict {
            switch self {
            case .malformed: .rejected(.malformedReceipt)
            case .badSignature: .rejected(.invalidSignature)
            case .ourClock: .indeterminate(retryAfter: limits.configurationDelay, cause: .ourConfiguration)
            case .unknownShape: .indeterminate(retryAfter: limits.parkedDelay, cause: .unknownState)
            }
        }
    }

    private func read(_ jws: String) -> Result<AppleTransaction, ReadingProblem> {
        let payload: VerifiedPayload
        do throws(SignedDataError) {
            payload = try signatures.verify(jws, now: clock.now)
        } catch {
            // Genuine but for its date: then our clock is slow (or Apple's key is lost). Neither credits, but only a
            // forgery is refused for good.
            if error == .signedInFuture,
                (try? signatures.verify(jws, now: clock.now + Self.tenYears)) != nil
            {
                return .failure(.ourClock)
            }
            return .failure(ReadingProblem(error))
        }
        do throws(AppleTransaction.Problem) {
            return .success(try AppleTransaction(payload.json))
        } catch {
            return .failure(error == .unknownShape ? .unknownShape : .malformed)
        }
    }

    // MARK: Confirmation

    /// Asks the environment that the signed transaction names; production's "unknown" or "who are you" sends us to
    /// the sandbox once: App Review and unreleased apps buy there.
    private func confirm(
        _ transaction: AppleTransaction, in environment: StoreEnvironment, _ maySandbox: Bool, _ api: AppleServerAPI
    ) async -> AppleAnswer {
        let (id, bundleID) = (transaction.transactionID, transaction.bundleID)
        let first = await api.transaction(id, of: bundleID, in: environment)
        guard environment == .production, maySandbox, case .failed(let errorClass, _) = first,
            errorClass == .unknownPurchase || errorClass == .otherEnvironment
        else { return first }
        let second = await api.transaction(id, of: bundleID, in: .sandbox)
        if case .failed(.unknownPurchase, _) = second, errorClass == .otherEnvironment {
            // Production did not let us in, so "unknown in the sandbox" says nothing about this purchase.
            return .failed(.ourConfiguration, retryAfter: nil)
        }
        return second
    }

    private func verdict(
        onConfirmed signed: [UInt8], of transaction: AppleTransaction, _ judge: AppleJudge, key: PurchaseKey
    ) -> Verdict {
        guard case .success(let confirmed) = read(String(decoding: signed, as: UTF8.self)),
            confirmed.transactionID == transaction.transactionID, confirmed.bundleID == transaction.bundleID
        else {
            // An answer that is not Apple's, or about something else: the way to Apple is broken, not the purchase.
            return .indeterminate(cause: .storeUnavailable, knownKey: key)
        }
        return judge.verdict(on: confirmed)
    }
}

extension AppleErrorClass {
    /// The verdict when this is all that Apple says about a purchase.
    func verdict(
        retryAfter: Duration?, key: PurchaseKey?, attempt: VerificationAttempt, _ limits: VerificationLimits
    ) -> Verdict {
        switch self {
        case .final(let reason):
            return .rejected(reason, knownKey: key)
        case .ambiguous(let reason):
            if limits.isNoForGood(attempt) { return .rejected(reason, knownKey: key) }
            return .indeterminate(retryAfter: limits.tooNewDelay(attempt), cause: .storeUnavailable, knownKey: key)
        case .unknownPurchase:
            if limits.isNoForGood(attempt) { return .rejected(.unknownPurchase, knownKey: key) }
            return .indeterminate(retryAfter: limits.tooNewDelay(attempt), cause: .tooNew, knownKey: key)
        case .retrySoon:
            return .indeterminate(retryAfter: retryAfter, cause: .storeUnavailable, knownKey: key)
        case .retryAfter:
            return .indeterminate(
                retryAfter: retryAfter ?? limits.throttledDelay, cause: .storeThrottled, knownKey: key)
        // Still being sent elsewhere after both environments were asked: what they answer cannot be about the purchase.
        case .ourConfiguration, .otherEnvironment:
            return .indeterminate(retryAfter: limits.configurationDelay, cause: .ourConfiguration, knownKey: key)
        }
    }
}
