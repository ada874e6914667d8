public import Commerce

/// Everything verification takes from configuration: whose app this is, how to speak to the stores, whom to credit.
///
/// A store that is nil is not spoken to; its receipts wait as "our configuration" rather than being refused.
public struct VerificationConfiguration: Sendable {
    /// The App Store, or nil when this deployment does not sell there.
    public var apple: AppleConfiguration?
    /// Google Play, or nil when this deployment does not sell there.
    public var google: GoogleConfiguration?
    /// Who is credited for purchases nobody paid for: Apple's sandbox and TestFlight, Google's licence testers.
    public var sandbox: SandboxPolicy
    /// Namespace (16 bytes) of the UUIDv5 that is a player's account token when the submission names none.
    ///
    /// The app must hand the same token to the store. Nil binds only submissions that name a token themselves.
    public var accountTokenNamespace: [UInt8]?
    /// How patient verification is; the defaults suit production.
    public var limits: VerificationLimits

    /// Makes a configuration that credits no sandbox purchase and binds by the default account token.
    public init(
        apple: AppleConfiguration? = nil, google: GoogleConfiguration? = nil, sandbox: SandboxPolicy = .nobody,
        accountTokenNamespace: [UInt8]? = AccountBinding.namespace, limits: VerificationLimits = VerificationLimits()
    ) {
        self.apple = apple
        self.google = google
        self.sandbox = sandbox
        self.accountTokenNamespace = accountTokenNamespace
        self.limits = limits
    }
}

/// Named limits of verification.
public struct VerificationLimits: Sendable {
    /// Whole time of one call to a store.
    public var callDeadline: Duration = .seconds(15)
    /// Largest accepted store answer.
    public var answerBytesMax: Int = 1 << 20
    /// An unknown id, or a status that means "malformed or a temporary problem" (21002), is refused only after this many
    /// looks.
    ///
    /// With the delays between them nine take 72 s, so ``unknownPurchaseAge`` has passed also where the clock that
    /// tells the age jumped: that makes one look come early, not all of them.
    public var unknownPurchaseLooks: Int = 9
    /// Nor before the receipt is this old: stores answer "not found" for purchases of the last seconds, and have bad
    /// minutes.
    public var unknownPurchaseAge: Duration = .seconds(60)
    /// Suggested delay before looking again when the "no" may change, times the number of looks so far.
    public var tooNewDelay: Duration = .seconds(2)
    /// Longest such delay.
    public var tooNewDelayMax: Duration = .seconds(30)
    /// Suggested delay when a store throttles without saying for how long.
    public var throttledDelay: Duration = .seconds(5)
    /// Suggested delay when only a change of our configuration can help.
    public var configurationDelay: Duration = .seconds(30)
    /// Suggested delay for states and products this version does not know.
    public var parkedDelay: Duration = .seconds(300)

    /// Makes the default limits.
    public init() {}
}

/// Text that must not be shown: printing, interpolating or dumping it gives a fixed word.
public struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself, for the one call that needs it.
    public let text: String

    /// Wraps `text`.
    public init(_ text: String) { self.text = text }

    /// The word "redacted".
    public var description: String { "redacted" }
    /// The word "redacted".
    public var debugDescription: String { "redacted" }
    /// No children.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// The app on the App Store and the way to Apple's servers.
public struct AppleConfiguration: Sendable {
    /// Whether a signed transaction that proved genuine locally is looked up at Apple too.
    public enum Confirmation: String, Sendable {
        /// The signature is enough: no call, no quota, but a refund before the credit goes unseen.
        case local
        /// Get Transaction Info confirms that the purchase still stands.
        case online
    }

    /// A key of App Store Connect for the App Store Server API.
    public struct APIKey: Sendable {
        /// Key id (`kid`).
        public var keyID: String
        /// Issuer id (`iss`), a UUID as text.
        public var issuerID: String
        /// The `.p8` file's text: a P-256 private key as PEM.
        public var privateKeyPEM: Secret

        /// Makes a key from its three parts.
        public init(keyID: String, issuerID: String, privateKeyPEM: Secret) {
            self.keyID = keyID
            self.issuerID = issuerID
            self.privateKeyPEM = privateKeyPEM
        }
    }

    /// Bundle ids of the apps whose purchases count.
    public var bundleIDs: Set<String>
    /// The environments whose purchases are looked at.
    ///
    /// App Review and TestFlight buy in the sandbox, also with the app that is on sale. Whom sandbox purchases are
    /// credited to is still for ``VerificationConfiguration/sandbox`` to say.
    public var environments: Set<StoreEnvironment> = [.production]
    /// Whether Apple is asked to confirm.
    public var confirmation: Confirmation = .online
    /// Needed when `confirmation` is online.
    public var key: APIKey?
    /// The app's shared secret, sent along with old base64 receipts when present.
    public var sharedSecret: Secret?
    /// App Store Server API, production: scheme and host, no path.
    public var productionURL = "https://api.storekit.apple.com"
    /// App Store Server API, sandbox: scheme and host, no path.
    public var sandboxURL = "https://api.storekit-sandbox.apple.com"
    /// verifyReceipt, production: the whole URL.
    public var receiptProductionURL = "https://buy.itunes.apple.com/verifyReceipt"
    /// verifyReceipt, sandbox: the whole URL.
    public var receiptSandboxURL = "https://sandbox.itunes.apple.com/verifyReceipt"
    /// SHA-256 fingerprints (hex) of trusted roots; nil trusts Apple Root CA G3 alone, as production must.
    public var rootFingerprints: [String]?

    /// Makes a configuration for Apple's real servers.
    public init(bundleIDs: Set<String>, key: APIKey? = nil) {
        self.bundleIDs = bundleIDs
        self.key = key
    }
}

/// The app on Google Play and the way to Google's servers.
public struct GoogleConfiguration: Sendable {
    /// Who consumes a consumable after the credit, which lets the player buy it again.
    public enum Consumption: String, Sendable {
        /// Teller consumes it.
        case server
        /// The app does; Teller only acknowledges, so that Google does not refund it after three days.
        case client
    }

    /// How the Google Play Developer API is told who we are.
    public enum Credentials: Sendable {
        /// A service account's key mints short-lived access tokens.
        case serviceAccount(ServiceAccount)
        /// One fixed access token, for private set-ups whose proxy swaps it for a real one.
        case accessToken(Secret)
    }

    /// The fields of a service account's key file that are used.
    public struct ServiceAccount: Sendable {
        /// `client_email`.
        public var clientEmail: String
        /// `private_key`: an RSA key as PEM.
        public var privateKeyPEM: Secret
        /// `private_key_id`.
        public var privateKeyID: String
        /// `token_uri`.
        public var tokenURL = "https://oauth2.googleapis.com/token"

        /// Makes an account that asks Google's real token endpoint.
        public init(clientEmail: String, privateKeyPEM: Secret, privateKeyID: String) {
            self.clientEmail = clientEmail
            self.privateKeyPEM = privateKeyPEM
            self.privateKeyID = privateKeyID
        }
    }

    /// Package names of the apps whose purchases count.
    ///
    /// A purchase token does not tell its app, so they are asked for in this order: the one that sells most first.
    public var packageNames: [PackageName]
    /// How to authenticate.
    public var credentials: Credentials
    /// Who consumes.
    public var consumption: Consumption = .server
    /// Google Play Developer API: scheme and host, no path.
    public var baseURL = "https://androidpublisher.googleapis.com"

    /// Makes a configuration for Google's real servers.
    public init(packageNames: [PackageName], credentials: Credentials) {
        self.packageNames = packageNames
        self.credentials = credentials
    }
}
