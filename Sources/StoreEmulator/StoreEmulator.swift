import HTTP
public import ServiceRuntime
import Signing

/// What a purchase gives the phone, and what the store knows about it.
public struct EmulatedPurchase: Sendable {
    /// The signed transaction (Apple) or the purchase token (Google): what the app sends to its server.
    public let receipt: String
    /// The ground truth.
    public let record: PurchaseRecord

    /// Transaction id or purchase token.
    public var id: String { record.id }
}

/// Both stores over HTTP, on loopback, for development, tests, load tests and the demonstration.
///
/// It exists so that everything Teller does can be proved against stores that misbehave on command: it sells, signs
/// with a root of its own (fresh for each run), answers Apple's and Google's APIs field by field as documented, fails
/// in every way that real stores have been seen to fail, and knows the ground truth about who bought what. It shares no
/// wire type with Verification, because a shared type would hide a shared mistake. Everything is in memory: after a
/// crash it is a different pair of stores.
///
/// One base URL serves all: `/apple/production`, `/apple/sandbox` and `/google` stand for the stores' hosts, `/control`
/// is the emulator's own API.
@LoopActor
public final class StoreEmulator {
    /// Whose stores these are, and how strict.
    public struct Configuration: Sendable {
        /// A loopback address; anything else is refused.
        public var host = "127.0.0.1"
        /// TCP port; 0 lets the system choose.
        public var port = 0
        /// The app on the App Store.
        public var bundleID = "com.mygame"
        /// Its number on the App Store.
        public var appleAppID: Int64 = 6_400_000_001
        /// `iss` of Apple API tokens.
        public var appleIssuerID = "11111111-2222-4333-8444-555555555555"
        /// `kid` of Apple API tokens.
        public var appleKeyID = "EMULATED01"
        /// verifyReceipt's `password`; nil accepts any.
        public var appleSharedSecret: String?
        /// The app on Google Play.
        public var packageName = "com.mygame"
        /// Packages that exist as well, but are other apps.
        public var otherPackages: Set<String> = ["com.othergame"]
        /// `client_email` of the service account.
        public var googleAccount = "billing@emulated.iam.gserviceaccount.com"
        /// An access token that is always good; nil for none.
        public var googleStaticAccessToken: String?
        /// How long access tokens live.
        public var accessTokenLifetime: Duration = .seconds(3600)
        /// After this, Google takes back a purchase that nobody acknowledged.
        public var acknowledgeWithin: Duration = .seconds(3 * 86_400)
        /// Seeds the dice of the fault knobs.
        public var seed: UInt64 = 1
        /// The stores' clock.
        public var clock = WallClock.system

        /// The app of the example catalogue.
        public init() {}
    }

    let configuration: Configuration
    let logger: Logger
    let keys: EmulatorKeys
    let book: PurchaseBook
    let board: FaultBoard
    let apple: AppleStore
    let receipts: AppleReceipts
    let google: GoogleStore
    private var server: HTTPServer?
    private var port = 0

    /// Makes the keys (the first time in a process that takes some 100 ms) and an empty book of purchases.
    ///
    /// - Throws: ``EmulatorError``.
    public init(_ configuration: Configuration = Configuration(), logger: Logger = .disabled) throws {
        guard ["127.0.0.1", "localhost", "::1"].contains(configuration.host) else { throw EmulatorError.notLoopback }
        self.configuration = configuration
        self.logger = logger
        do throws(KeyError) {
            keys = try EmulatorKeys(clock: configuration.clock)
        } catch {
            throw EmulatorError.failed(error.description)
        }
        book = PurchaseBook(clock: configuration.clock, acknowledgeWithin: configuration.acknowledgeWithin)
        board = FaultBoard(seed: configuration.seed)
        apple = AppleStore(configuration, book: book, keys: keys)
        receipts = AppleReceipts(configuration, book: book)
        google = GoogleStore(configuration, book: book, keys: keys)
    }

    /// Begins to listen; returns the port.
    @discardableResult
    public func start() throws -> Int {
        precondition(server == nil, "the emulator was started twice")
        let router = Router()
        addStores(to: router)
        addControl(to: router)
        var listening = HTTPServer.Configuration()
        listening.host = configuration.host
        listening.port = configuration.port
        // One connection of a client under test may be silent for as long as it likes.
        listening.idleTimeout = .seconds(3600)
        let server = HTTPServer(listening, router: router, logger: logger)
        port = try server.start()
        self.server = server
        google.tokenURL = tokenURL
        return port
    }

    /// Stops listening; requests that hang are cut off.
    public func stop() async {
        _ = await server?.stop(within: .milliseconds(100))
        server = nil
    }

    // MARK: Where things are

    /// `http://127.0.0.1:<port>`.
    public var baseURL: String {
        "http://\(configuration.host.contains(":") ? "[\(configuration.host)]" : configuration.host):\(port)"
    }

    /// Stands for an App Store Server API host: paths begin with `/inApps`.
    public func appleURL(_ environment: EmulatedEnvironment) -> String {
        baseURL + (environment == .production ? "/apple/production" : "/apple/sandbox")
    }

    /// The whole URL of verifyReceipt.
    public func receiptURL(_ environment: EmulatedEnvironment) -> String { appleURL(environment) + "/verifyReceipt" }
    /// Stands for `https://androidpublisher.googleapis.com`.
    public var googleURL: String { baseURL + "/google" }
    /// The OAuth token endpoint.
    public var tokenURL: String { baseURL + "/google/token" }

    // MARK: Buying

    /// Sells something.
    ///
    /// - Throws: ``EmulatorError``.
    @discardableResult
    public func purchase(_ request: PurchaseRequest) throws -> EmulatedPurchase {
        var request = request
        if request.signer == .expiredLeaf, request.purchasedAt == nil {
            request.purchasedAt = configuration.clock.now - .seconds(60 * 86_400)
        }
        let record = try book.add(request)
        return EmulatedPurchase(receipt: try receipt(of: record), record: record)
    }

    /// What the phone has for a purchase; an Apple receipt is signed anew, over the same payload.
    public func receipt(of record: PurchaseRecord) throws -> String {
        record.store == .google ? record.id : try apple.receipt(record)
    }

    /// An old base64 receipt that lists these Apple transactions.
    public func appReceipt(of ids: [String]) throws -> String { try receipts.make(ids) }

    /// Pays or cancels a pending purchase, or refunds a paid one.
    public func move(_ id: String, to state: PurchaseState) throws { try book.move(id, to: state) }

    /// Replaces Apple's leaf certificate.
    public func replaceLeaf() throws { try keys.replaceLeaf() }

    /// Ends all of Google's access tokens.
    public func expireAccessTokens() { google.forgetAccessTokens() }

    // MARK: Faults

    /// Sets the knobs of every endpoint that the pattern names (`*`, `apple`, `apple.sandbox`, `google.get`, …).
    public func setFaults(_ knobs: FaultKnobs, for pattern: String) {
        board.set(knobs, for: StoreEndpointName.allCases.filter { $0.matches(pattern) })
    }

    /// Requests that an endpoint has seen since the last reset.
    public func requests(to endpoint: StoreEndpointName) -> Int { board.requests[endpoint] ?? 0 }

    /// Forgets purchases, receipts, access tokens and knobs; the keys stay.
    public func reset() {
        book.removeAll()
        receipts.removeAll()
        board.reset()
        google.forgetAccessTokens()
    }

    // MARK: Ground truth

    /// Every purchase, in order.
    public var groundTruth: [PurchaseRecord] { book.records }

    /// One purchase as it stands.
    public func record(_ id: String, in store: EmulatedStore) -> PurchaseRecord? { book.find(id, in: store) }

    /// Whether a purchase has to be in its buyer's wallet.
    public func duty(of record: PurchaseRecord) -> CreditDuty {
        record.duty(ownAppID: record.store == .apple ? configuration.bundleID : configuration.packageName)
    }

    // MARK: The stores' routes

    private func addStores(to router: Router) {
        for environment in EmulatedEnvironment.allCases {
            let isProduction = environment == .production
            let prefix = isProduction ? "/apple/production" : "/apple/sandbox"
            let transaction = isProduction ? StoreEndpointName.appleTransaction : .appleSandboxTransaction
            router.on(.get, prefix + "/inApps/v1/transactions/{id}") { [unowned self] request in
                await serve(transaction) { self.apple.transactionInfo(request, in: environment) }
            }
            let receipt = isProduction ? StoreEndpointName.appleReceipt : .appleSandboxReceipt
            router.on(.post, prefix + "/verifyReceipt", bodyBytesMax: 2 << 20) { [unowned self] request in
                await serve(receipt) { self.receipts.verify(request, in: environment) }
            }
            router.on(.get, prefix + "/verifyReceipt") { _ in .json(200, AppleErrors.receiptStatus(21_000)) }
        }
        router.on(.post, "/google/token") { [unowned self] request in
            await serve(.googleToken) { self.google.token(request) }
        }
        let product =
            "/google/androidpublisher/v3/applications/{package}/purchases/products/{product}/tokens/{token}"
        router.on(.get, product) { [unowned self] request in
            await serve(.googleGet) { self.google.get(request) }
        }
        router.on(.post, product) { [unowned self] request in
            // `…/tokens/{token}:consume`: the method is the end of the last segment.
            let segment = request.pathParameters["token"] ?? ""
            let parts = segment.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            switch parts.last {
            case "consume" where parts.count == 2:
                return await serve(.googleConsume) { self.google.consume(request, token: parts[0]) }
            case "acknowledge" where parts.count == 2:
                return await serve(.googleAcknowledge) { self.google.acknowledge(request, token: parts[0]) }
            default: return GoogleErrors.response(404, reason: "notFound", "Not Found")
            }
        }
    }

    /// Answers as the knobs say.
    private func serve(
        _ endpoint: StoreEndpointName, _ answer: @LoopActor () -> OutgoingResponse
    ) async -> OutgoingResponse {
        let (delay, fault) = board.rule(endpoint)
        if delay > .zero {
            do throws(CancellationError) {
                try await pause(for: delay)
            } catch {
                // The client has gone; nobody will see this.
                return .text(503, "cancelled")
            }
        }
        guard let fault else { return answer() }
        let real = fault.happensAfterEffect || fault.kind == .truncated ? answer() : nil
        return fault.kind.response(of: endpoint.store, now: configuration.clock.now, real: real)
    }
}
