import Commerce
import HTTP
import ServiceRuntime
import Signing

/// Google's one-time purchases: ask purchases.products about the token, believe only the answer.
///
/// The client's proof is nothing but the token; everything else comes from Google. One GET per look; the access token
/// is shared, and a look that meets an outdated one renews it and asks once more. Nothing is remembered in between.
@LoopActor
final class GoogleVerifier {
    private let configuration: GoogleConfiguration
    /// Each app with the beginning of its URLs.
    private let apps: [App]
    private let access: GoogleAccess
    private let get: StoreEndpoint
    private let consume: StoreEndpoint
    private let acknowledge: StoreEndpoint
    private let clock: WallClock
    private let limits: VerificationLimits

    private struct App {
        let package: PackageName
        let urlPrefix: String
    }

    /// Google's answer to one question.
    enum Reply {
        case answer(HTTPAnswer)
        /// `status` is 0 when there was no answer.
        case failed(Failure, status: Int)
    }

    init(
        _ configuration: GoogleConfiguration, limits: VerificationLimits,
        endpoint: (String) -> StoreEndpoint, clock: WallClock
    ) throws(KeyError) {
        self.configuration = configuration
        self.limits = limits
        self.clock = clock
        let base = StoreURL.base(configuration.baseURL) + "/androidpublisher/v3/applications/"
        apps = configuration.packageNames.map { package in
            App(package: package, urlPrefix: base + StoreURL.escaped(package.rawValue) + "/purchases/products/")
        }
        access = try GoogleAccess(
            configuration.credentials, endpoint: endpoint("token"), limits: limits, clock: clock)
        get = endpoint("products.get")
        consume = endpoint("products.consume")
        acknowledge = endpoint("products.acknowledge")
    }

    // MARK: Verify

    func verify(_ rules: PurchaseRules, attempt: VerificationAttempt) async -> Verdict {
        // The token's alphabet was checked when the type was made: nothing in it can leave its place in the URL.
        guard let token = rules.submission.receipt.purchaseToken else { return .rejected(.malformedReceipt) }
        let key = PurchaseKey.google(token: token)
        // Google's v1 API wants the product in the path; that it is the right one is what the answer says.
        guard let storeProductID = rules.catalogue.storeProductID(namedBy: rules.submission) else {
            guard let named = rules.submission.product else { return .rejected(.malformedReceipt, knownKey: key) }
            return .indeterminate(
                retryAfter: limits.parkedDelay, cause: .unknownProduct, product: named.rawValue, knownKey: key)
        }
        var notHere = Failure(.ourConfiguration)
        for app in apps {
            switch await purchase(token, of: storeProductID, in: app) {
            case .success(let purchase):
                let judge = GoogleJudge(
                    package: app.package, consumption: configuration.consumption, rules: rules, limits: limits)
                return judge.verdict(on: purchase, of: storeProductID, token: token, key: key)
            case .failure(let failure):
                // "Not a purchase of this app" says nothing while other apps are left to ask.
                guard failure.errorClass.isAboutAnotherApp else {
                    return verdict(on: failure, key: key, attempt: attempt)
                }
                // Of several such answers the one that may still change is kept.
                if notHere.errorClass != .unknownPurchase { notHere = failure }
            }
        }
        return verdict(on: notHere, key: key, attempt: attempt)
    }

    /// A failed question.
    struct Failure: Error {
        let errorClass: GoogleErrorClass
        /// The delay the store asked for.
        let retryAfter: Duration?

        init(_ errorClass: GoogleErrorClass, retryAfter: Duration? = nil) {
            self.errorClass = errorClass
            self.retryAfter = retryAfter
        }
    }

    /// What Google says about a token now.
    private func purchase(
        _ token: PurchaseToken, of storeProductID: StoreProductID, in app: App
    ) async -> Result<GoogleProductPurchase, Failure> {
        switch await send(.get, url(token, of: storeProductID, in: app), to: get) {
        case .failed(let failure, _):
            return .failure(failure)
        case .answer(let answer):
            let json: JSONView
            do {
                json = try JSONView.parse(answer.body)
            } catch {
                // Cut off, a proxy's page, not JSON: no statement about the purchase.
                get.count("unusable", status: answer.status)
                return .failure(Failure(.retrySoon))
            }
            do {
                let purchase = try GoogleProductPurchase(json)
                get.countSuccess()
                return .success(purchase)
            } catch {
                // JSON in a shape this version does not know: as open as an unknown state.
                get.count("unusable", status: answer.status, detail: error.path)
                return .failure(Failure(.lookAgain))
            }
        }
    }

    private func verdict(on failure: Failure, key: PurchaseKey, attempt: VerificationAttempt) -> Verdict {
        switch failure.errorClass {
        case .final(let reason):
            return .rejected(reason, knownKey: key)
        case .unknownPurchase:
            if limits.isNoForGood(attempt) { return .rejected(.unknownPurchase, knownKey: key) }
            return .indeterminate(retryAfter: limits.tooNewDelay(attempt), cause: .tooNew, knownKey: key)
        case .lookAgain:
            return .indeterminate(retryAfter: limits.parkedDelay, cause: .unknownState, knownKey: key)
        case .retrySoon, .retryAfter, .ourConfiguration, .renewAccessToken:
            let (delay, cause) = failure.wait(limits)
            return .indeterminate(retryAfter: delay, cause: cause, knownKey: key)
        }
    }

    // MARK: Duties

    func perform(_ duty: StoreDuty, attempt: VerificationAttempt) async -> DutyOutcome {
        guard let app = apps.first(where: { $0.package == duty.package }) else {
            return .retry(after: limits.configurationDelay, cause: .ourConfiguration)
        }
        let (verb, endpoint) =
            switch duty.kind {
            case .googleConsume: (":consume", consume)
            case .googleAcknowledge: (":acknowledge", acknowledge)
            }
        switch await send(.post, url(duty.token, of: duty.storeProductID, in: app) + verb, to: endpoint) {
        case .answer:
            endpoint.countSuccess()
            return .done
        case .failed(_, status: 400):
            // Consumed or acknowledged before, perhaps by a call whose answer was lost; or refunded. Which reason Google
            // gives for that is not documented, but the purchase itself tells.
            return await outcome(of: duty, in: app, attempt: attempt)
        case .failed(let failure, _):
            return outcome(failure, attempt: attempt)
        }
    }

    private func outcome(of duty: StoreDuty, in app: App, attempt: VerificationAttempt) async -> DutyOutcome {
        switch await purchase(duty.token, of: duty.storeProductID, in: app) {
        case .failure(let failure):
            return outcome(failure, attempt: attempt)
        case .success(let purchase):
            // Consuming acknowledges, too.
            if purchase.consumptionState == 1 { return .done }
            if duty.kind == .googleAcknowledge, purchase.acknowledgementState == 1 { return .done }
            if purchase.purchaseState == 1 { return .impossible(.cancelled) }
            return .retry(after: nil, cause: .unknownState)
        }
    }

    private func outcome(_ failure: Failure, attempt: VerificationAttempt) -> DutyOutcome {
        switch failure.errorClass {
        case .final(let reason):
            return .impossible(reason)
        case .unknownPurchase:
            if limits.isNoForGood(attempt) { return .impossible(.unknownPurchase) }
            return .retry(after: limits.tooNewDelay(attempt), cause: .tooNew)
        case .lookAgain:
            return .retry(after: nil, cause: .unknownState)
        case .retrySoon, .retryAfter, .ourConfiguration, .renewAccessToken:
            let (delay, cause) = failure.wait(limits)
            return .retry(after: delay, cause: cause)
        }
    }

    // MARK: Requests

    private func url(_ token: PurchaseToken, of storeProductID: StoreProductID, in app: App) -> String {
        var url = app.urlPrefix
        // One allocation: room for the longest suffix, too.
        url.reserveCapacity(url.utf8.count + storeProductID.rawValue.utf8.count + token.rawValue.utf8.count + 32)
        url += StoreURL.escaped(storeProductID.rawValue)
        url += "/tokens/"
        url += StoreURL.escaped(token.rawValue)
        return url
    }

    /// Sends with a valid token; a refused token is renewed and the question asked once more, not more often.
    private func send(_ method: HTTPMethod, _ url: String, to endpoint: StoreEndpoint) async -> Reply {
        var headers: GoogleAccess.Headers
        if let valid = access.valid { headers = valid } else { headers = await access.current() }
        var mayRenew = true
        while true {
            let generation: Int
            let current: [(String, String)]
            switch headers {
            case .ready(let ready, let number): (current, generation) = (ready, number)
            case .failed(let failure): return .failed(failure, status: 0)
            }
            let request = OutgoingRequest(
                method, url, headers: current, body: method == .post ? [] : nil, deadline: limits.callDeadline,
                answerBytesMax: limits.answerBytesMax)
            guard let answer = await endpoint.send(request) else { return .failed(Failure(.retrySoon), status: 0) }
            if (200...299).contains(answer.status) { return .answer(answer) }
            let body = GoogleErrorBody(answer.body)
            let errorClass = GoogleErrorClass(status: answer.status, body: body)
            guard errorClass == .renewAccessToken else {
                endpoint.count(errorClass.label, status: answer.status, detail: body?.reason ?? "")
                let retryAfter = StoreEndpoint.retryAfter(answer, now: clock.now)
                return .failed(Failure(errorClass, retryAfter: retryAfter), status: answer.status)
            }
            guard mayRenew, let renewed = await access.afterRefusal(of: generation) else {
                // A token that is minutes or seconds old is refused: it is our rights, whatever Google calls it.
                endpoint.count(GoogleErrorClass.ourConfiguration.label, status: 401, detail: body?.reason ?? "")
                let pause = access.noteRefusedAgain()
                return .failed(Failure(.ourConfiguration, retryAfter: pause), status: 401)
            }
            endpoint.count(errorClass.label)
            mayRenew = false
            headers = renewed
        }
    }
}

extension GoogleVerifier.Failure {
    /// How long to wait for what, when the purchase itself is not in question.
    func wait(_ limits: VerificationLimits) -> (Duration?, IndeterminateCause) {
        switch errorClass {
        case .retryAfter: (retryAfter ?? limits.throttledDelay, .storeThrottled)
        case .ourConfiguration, .renewAccessToken: (retryAfter ?? limits.configurationDelay, .ourConfiguration)
        case .final, .unknownPurchase, .lookAgain, .retrySoon: (retryAfter, .storeUnavailable)
        }
    }
}
