import Glibc
import HTTP
public import ServiceRuntime
public import Verification

/// The whole configuration: one JSON file, each setting of which an environment variable can override.
///
/// Settings that are secrets are named by file (`…File`), so that they are in neither the configuration nor the process
/// list. Every mistake is reported at once, by the setting's path, and whatever weakens the protection of money (a
/// foreign root certificate, a store over plain http, sandbox purchases credited to everybody) is said aloud.
public struct TellerConfiguration: Sendable {
    /// Redis: where, with which password, and whether an unsafe one is put up with.
    public struct Redis: Sendable {
        /// `redis://user@host:port/db` or `unix:///path`; contains the password when there is no file for it.
        public var url: Secret
        /// The password, when it has a file of its own.
        public var password: Secret?
        /// Go on although the server could lose acknowledged credits.
        public var allowUnsafe: Bool
    }

    /// A caller of the API.
    public struct Caller: Sendable {
        /// The key's id.
        public var id: String
        /// SHA-256 of its secret.
        public var secretSHA256: [UInt8]
        /// `submit`, `read`.
        public var scopes: [String]
        /// Seconds since 1970 UTC after which the key is refused.
        public var notAfterSeconds: Int64?
        /// Most requests a second.
        public var requestsPerSecondMax: Int
        /// Most requests waiting at once.
        public var waitsMax: Int
    }

    /// The API front.
    public struct API: Sendable {
        /// Where the API listens.
        public var listen: ListenAddress
        /// Where `/metrics`, `/healthz` and `/readyz` are.
        public var operationsListen: ListenAddress
        /// Who may call.
        public var callers: [Caller]
        /// Most receipts on a store's list.
        public var pendingMax: Int
        /// How long a stop may take.
        public var stopDeadline: Duration
    }

    /// The worker.
    public struct Worker: Sendable {
        /// Where `/metrics`, `/healthz` and `/readyz` are; port 0 takes a free one.
        public var operationsListen: ListenAddress
        /// Most receipts in flight, per queue.
        public var inFlightMax: [String: Int]
        /// How long a stop may take.
        public var stopDeadline: Duration
    }

    /// Redis.
    public var redis: Redis
    /// Path of the catalogue file.
    public var cataloguePath: String
    /// Least severe level that is logged.
    public var logLevel: LogLevel
    /// `json`, `text`, or nil to choose by whether standard error is a terminal.
    public var logFormat: LogFormat?
    /// The API front.
    public var api: API
    /// The worker.
    public var worker: Worker
    /// Stores, credentials, account binding, sandbox policy; nil when only ``Part/front`` was read.
    public var verification: VerificationConfiguration?
    /// Proxy for calls to the stores, or nil.
    public var proxyURL: String?
    /// PEM file of further certificate authorities for TLS to the stores, or nil.
    public var certificateAuthoritiesPath: String?

    /// How much of a configuration is needed.
    public enum Part: Sendable {
        /// Everything.
        case whole
        /// Everything but the stores' secrets, whose files are not opened.
        ///
        /// Only workers speak to the stores, so nobody else need be allowed to read their keys.
        case front
    }

    /// What was found besides the configuration itself.
    public struct Findings: Sendable {
        /// Each makes the configuration unusable.
        public var mistakes: [String]
        /// Each weakens it.
        public var warnings: [String]
        /// What was understood, with stand-ins for what is mistaken; nil when the file is not JSON.
        ///
        /// To look for more mistakes in, never to run with.
        public var draft: TellerConfiguration?
    }

    /// Reads a configuration.
    ///
    /// - Parameters:
    ///   - json: the file's bytes; empty for an environment-only set-up.
    ///   - environment: of the process; only `TELLER_…` counts.
    ///   - part: how much of it is needed.
    ///   - readFile: reads the files that settings name.
    /// - Returns: The configuration, nil when there are mistakes, and everything that was found.
    public static func read(
        json: [UInt8], environment: [String: String], part: Part = .whole,
        readFile: @escaping (String) throws -> [UInt8]
    ) -> (TellerConfiguration?, Findings) {
        let notes = Settings.Notes(
            environment: environment.filter { $0.key.hasPrefix("TELLER_") }, part: part, readFile: readFile)
        var view: JSONView?
        if !json.isEmpty {
            do {
                view = try JSONView.parse(json)
            } catch {
                return (nil, Findings(mistakes: ["\(error)"], warnings: [], draft: nil))
            }
        }
        let root = Settings(root: view, notes: notes)
        let configuration = TellerConfiguration(root)
        root.refuseUnknownKeys()
        for name in notes.environment.keys.sorted() where !notes.variablesRead.contains(name) {
            notes.mistakes.append("\(name): is not a setting")
        }
        let findings = Findings(mistakes: notes.mistakes, warnings: notes.warnings, draft: configuration)
        return (notes.mistakes.isEmpty ? configuration : nil, findings)
    }

    private init(_ root: Settings) {
        redis = Self.redis(root.section("redis"))
        cataloguePath = root.required("catalogue", example: "/etc/teller/catalogue.json")
        let log = root.section("log")
        logLevel = LogLevel(named: log.string("level") ?? "info") ?? .info
        if let name = log.string("level"), LogLevel(named: name) == nil {
            log.mistake("level", "must be one of " + LogLevel.allCases.map(\.name).joined(separator: ", "))
        }
        switch log.string("format") ?? "auto" {
        case "auto": logFormat = nil
        case "json": logFormat = .json
        case "text": logFormat = .text
        default:
            logFormat = nil
            log.mistake("format", "must be one of auto, json, text")
        }
        log.refuseUnknownKeys()
        api = Self.api(root.section("api"))
        worker = Self.worker(root.section("worker"))
        // A warning only: the workers may be on another machine, with the same file.
        for (name, address) in [("listen", api.listen), ("operationsListen", api.operationsListen)]
        where worker.operationsListen.overlaps(address) {
            root.warning(
                "worker.operationsListen", "is where api.\(name) is: on one machine only one of both can start")
        }
        verification = Self.verification(root)
        // An empty one in the environment undoes the file's.
        proxyURL = root.string("proxy").flatMap { $0.isEmpty ? nil : $0 }
        if let proxyURL, !HTTPClient.Configuration.isProxy(proxyURL) {
            root.mistake("proxy", "must be http://host:port, for example http://proxy.internal:3128")
        }
        certificateAuthoritiesPath = root.string("certificateAuthoritiesFile")
        if certificateAuthoritiesPath != nil, root.notes.part == .whole {
            if let pem = root.textFile("certificateAuthoritiesFile"), !pem.contains("-----BEGIN CERTIFICATE-----") {
                root.mistake("certificateAuthoritiesFile", "holds no certificate in PEM")
            }
            root.warning("certificateAuthoritiesFile", "whoever owns one of these authorities can pose as a store")
        }
    }

    private static func redis(_ settings: Settings) -> Redis {
        let url = settings.string("url") ?? "redis://127.0.0.1:6379/0"
        // One that cannot be read is a mistake of its own, and no reason to find fault with the URL.
        let password = settings.string("passwordFile").map { _ in
            Secret(settings.textFile("passwordFile") ?? "unread")
        }
        let allowUnsafe = settings.flag("allowUnsafe")
        if allowUnsafe {
            settings.warning("allowUnsafe", "an unsafe Redis can lose purchases that were reported as credited")
        }
        settings.refuseUnknownKeys()
        return Redis(url: Secret(url), password: password, allowUnsafe: allowUnsafe)
    }

    private static func worker(_ settings: Settings) -> Worker {
        let inFlight = settings.section("inFlight")
        let worker = Worker(
            operationsListen: ListenAddress(settings, "operationsListen", default: "127.0.0.1:0"),
            inFlightMax: [
                "apple": inFlight.integer("apple", in: 1...20_000, default: 1000),
                "google": inFlight.integer("google", in: 1...20_000, default: 1000),
                "google-duty": inFlight.integer("google-duty", in: 1...20_000, default: 64),
            ],
            stopDeadline: .seconds(settings.integer("stopSeconds", in: 1...3600, default: 25)))
        inFlight.refuseUnknownKeys()
        settings.refuseUnknownKeys()
        return worker
    }
}

/// Where a server listens: a numeric address and a port.
public struct ListenAddress: Sendable, Equatable {
    /// An IPv4 or IPv6 address.
    public var host: String
    /// TCP port; 0 takes a free one.
    public var port: Int

    /// Reads `127.0.0.1:8080` or `[::1]:8080`; nil when it is neither.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        guard host == "localhost" || Self.isNumeric(host) else { return nil }
        self.host = host
        self.port = port
    }

    /// Whether servers at both cannot be started beside each other; never, where a port is free to choose.
    ///
    /// Addresses are compared as they are written: the second spelling of one is found out by the system at the start.
    public func overlaps(_ other: ListenAddress) -> Bool {
        guard port == other.port, port != 0 else { return false }
        let hosts = [host, other.host].map { $0 == "localhost" ? "127.0.0.1" : $0 }
        if hosts[0] == hosts[1] || hosts.contains("::") { return true }
        return hosts.contains("0.0.0.0") && !hosts.contains { $0.contains(":") }
    }

    private static func isNumeric(_ host: String) -> Bool {
        var bytes = in6_addr()
        return inet_pton(AF_INET, host, &bytes) == 1 || inet_pton(AF_INET6, host, &bytes) == 1
    }

    init(_ settings: Settings, _ key: String, default standard: StaticString) {
        let text = settings.string(key) ?? standard.description
        if let address = ListenAddress(text) {
            self = address
        } else {
            settings.mistake(key, "must be address:port, for example \(standard)")
            host = "127.0.0.1"
            port = 0
        }
    }
}
