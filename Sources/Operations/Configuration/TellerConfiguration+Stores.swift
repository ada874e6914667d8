import Commerce
import ServiceRuntime
import Signing
import Verification

extension TellerConfiguration {
    static func api(_ settings: Settings) -> API {
        let callers = settings.sections("keys").map(caller)
        let twice = Dictionary(grouping: callers, by: \.id).filter { $0.value.count > 1 }.keys.sorted()
        for id in twice { settings.mistake("keys", "the id \(id) occurs twice") }
        if callers.isEmpty { settings.warning("keys", "without a key nobody can call the API") }
        let listen = ListenAddress(settings, "listen", default: "127.0.0.1:8080")
        let operationsListen = ListenAddress(settings, "operationsListen", default: "127.0.0.1:9090")
        if listen.overlaps(operationsListen) {
            settings.mistake("operationsListen", "is where api.listen is already: give it another port")
        }
        let api = API(
            listen: listen, operationsListen: operationsListen, callers: callers,
            pendingMax: settings.integer("pendingMax", in: 1...100_000_000, default: 1_000_000),
            stopDeadline: .seconds(settings.integer("stopSeconds", in: 1...3600, default: 25)))
        settings.refuseUnknownKeys()
        return api
    }

    private static func caller(_ settings: Settings) -> Caller {
        let id = settings.required("id", example: "\"game-server\"")
        // It travels in a header, before the dot that ends it.
        if !id.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ".") }) {
            settings.mistake("id", "must be printable ASCII without dot and space")
        }
        let digest = bytes(ofHex: settings.required("sha256", example: "what `\(digesting)` prints"))
        if digest?.count != 32 { settings.mistake("sha256", "must be 64 hex digits") }
        if let digest, unusableDigests.contains(digest) {
            settings.mistake(
                "sha256",
                "is of no secret, or of an example's: make one (openssl rand -hex 32), and put in what `\(digesting)` "
                    + "prints")
        }
        let scopes = settings.strings("scopes") ?? []
        if scopes.isEmpty { settings.mistake("scopes", "must name at least one of submit, read") }
        for scope in scopes where !["submit", "read"].contains(scope) {
            settings.mistake("scopes", "must be among submit, read")
        }
        var notAfter: Int64?
        if let text = settings.string("notAfter") {
            notAfter = UnixMilliseconds(rfc3339: text)?.seconds
            if notAfter == nil { settings.mistake("notAfter", "must be a time such as 2027-01-31T00:00:00Z") }
        }
        let caller = Caller(
            id: id, secretSHA256: digest ?? [], scopes: scopes, notAfterSeconds: notAfter,
            requestsPerSecondMax: settings.integer("requestsPerSecondMax", in: 1...10_000_000, default: 100_000),
            waitsMax: settings.integer("waitsMax", in: 0...1_000_000, default: 20_000))
        settings.refuseUnknownKeys()
        return caller
    }

    private static let digesting = "printf %s \"$secret\" | sha256sum"

    /// All zeros; what a pipe into sha256sum makes of a variable that is not set; and the word that the documentation
    /// has in the place of a secret.
    private static let unusableDigests: Set<[UInt8]> = [
        [UInt8](repeating: 0, count: 32), Digest.sha256(Array("".utf8)), Digest.sha256(Array("\n".utf8)),
        Digest.sha256(Array("SECRET".utf8)), Digest.sha256(Array("SECRET\n".utf8)),
    ]

    private static func bytes(ofHex text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2), text.allSatisfy(\.isHexDigit) else { return nil }
        var bytes: [UInt8] = []
        for at in stride(from: 0, to: digits.count, by: 2) {
            guard let byte = UInt8(String(decoding: digits[at...at + 1], as: UTF8.self), radix: 16) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    static func verification(_ root: Settings) -> VerificationConfiguration? {
        var verification = VerificationConfiguration()
        let hasApple = root.has("apple", essential: "bundleIds")
        let hasGoogle = root.has("google", essential: "packageNames")
        if hasApple { verification.apple = apple(root.section("apple")) }
        if hasGoogle { verification.google = google(root.section("google")) }
        verification.sandbox = sandbox(root.section("sandbox"))
        guard hasApple || hasGoogle else {
            root.notes.mistakes.append("apple, google: at least one of the stores must be configured")
            return nil
        }
        guard root.notes.part == .whole else { return nil }
        // What makes a store's configuration usable is known to the module that uses it; what was not readable has been
        // said, and is not said again as missing.
        let noted = Set(root.notes.mistakes.map { $0.prefix { $0 != ":" } })
        for finding in verification.findings() where !noted.contains(finding.field[...]) {
            if finding.field == "verification" { continue }
            switch finding.severity {
            case .mistake: root.notes.mistakes.append(finding.description)
            case .warning: root.notes.warnings.append(finding.description)
            }
        }
        return verification
    }

    private static func sandbox(_ settings: Settings) -> SandboxPolicy {
        let players = settings.strings("players") ?? []
        let credit = settings.string("credit") ?? "nobody"
        defer { settings.refuseUnknownKeys() }
        if credit == "listed", players.isEmpty {
            settings.warning(
                "players", "names nobody, so nobody is credited: name the testers, or set credit to nobody")
        } else if credit != "listed", !players.isEmpty {
            settings.warning("players", "has no effect, since sandbox.credit is not listed")
        }
        switch credit {
        case "nobody": return .nobody
        case "everybody": return .everybody
        case "listed":
            let ids = players.compactMap { PlayerID(rawValue: $0) }
            if ids.count != players.count { settings.mistake("players", "must be player ids") }
            return .listed(Set(ids))
        default:
            settings.mistake("credit", "must be one of nobody, listed, everybody")
            return .nobody
        }
    }

    private static func apple(_ settings: Settings) -> AppleConfiguration {
        var apple = AppleConfiguration(bundleIDs: Set(settings.strings("bundleIds") ?? []))
        apple.environments = environments(settings)
        switch settings.string("verify") ?? "online" {
        case "online": apple.confirmation = .online
        case "local": apple.confirmation = .local
        default: settings.mistake("verify", "must be online or local")
        }
        let keyID = settings.string("keyId")
        let issuerID = settings.string("issuerId")
        if let pem = settings.secretText("privateKeyFile") {
            apple.key = AppleConfiguration.APIKey(
                keyID: keyID ?? "", issuerID: issuerID ?? "", privateKeyPEM: Secret(pem))
        }
        apple.sharedSecret = settings.secretText("sharedSecretFile").map { Secret($0) }
        apple.productionURL = url(settings, "productionURL", apple.productionURL)
        apple.sandboxURL = url(settings, "sandboxURL", apple.sandboxURL)
        apple.receiptProductionURL = url(settings, "receiptProductionURL", apple.receiptProductionURL)
        apple.receiptSandboxURL = url(settings, "receiptSandboxURL", apple.receiptSandboxURL)
        apple.rootFingerprints = settings.strings("rootFingerprints")
        settings.refuseUnknownKeys()
        return apple
    }

    /// Both unless told otherwise, since App Review and TestFlight buy in the sandbox with the app that is on sale.
    ///
    /// Whom that credits is the sandbox policy's to say.
    private static func environments(_ settings: Settings) -> Set<StoreEnvironment> {
        let names = settings.strings("environments") ?? StoreEnvironment.allCases.map(\.rawValue)
        let environments = names.compactMap { StoreEnvironment(rawValue: $0) }
        if environments.isEmpty || environments.count != names.count {
            settings.mistake("environments", "must be among Production, Sandbox")
        }
        return Set(environments)
    }

    private static func google(_ settings: Settings) -> GoogleConfiguration? {
        defer { settings.refuseUnknownKeys() }
        let names = settings.strings("packageNames") ?? []
        let packages = names.compactMap { PackageName(rawValue: $0) }
        if packages.count != names.count {
            settings.mistake("packageNames", "must be Android package names, made of \(PackageName.alphabet)")
        }
        let baseURL = settings.string("baseURL")
        let tokenURL = settings.string("tokenURL")
        let consume = settings.string("consume") ?? GoogleConfiguration.Consumption.server.rawValue
        let consumption = GoogleConfiguration.Consumption(rawValue: consume)
        if consumption == nil { settings.mistake("consume", "must be server or client") }
        guard let credentials = credentials(settings, tokenURL) else { return nil }
        var google = GoogleConfiguration(packageNames: packages, credentials: credentials)
        if let baseURL { google.baseURL = withoutSlash(baseURL) }
        google.consumption = consumption ?? .server
        return google
    }

    private static func credentials(_ settings: Settings, _ tokenURL: String?) -> GoogleConfiguration.Credentials? {
        let keyFile = settings.string("serviceAccountFile")
        let tokenFile = settings.string("accessTokenFile")
        switch (keyFile, tokenFile) {
        case (nil, nil):
            settings.mistake("serviceAccountFile", "is required (or accessTokenFile in a private set-up)")
            return nil
        case (_?, _?):
            settings.mistake("accessTokenFile", "excludes serviceAccountFile: name one of them")
            return nil
        case (_?, nil):
            guard let key = settings.secret("serviceAccountFile") else { return nil }
            do {
                var account = try GoogleConfiguration.ServiceAccount(keyFile: key)
                if let tokenURL { account.tokenURL = tokenURL }
                return .serviceAccount(account)
            } catch {
                settings.mistake("serviceAccountFile", "is not a service account's key file: \(error)")
                return nil
            }
        case (nil, _?):
            return settings.secretText("accessTokenFile").map { .accessToken(Secret($0)) }
        }
    }

    private static func url(_ settings: Settings, _ key: String, _ standard: String) -> String {
        settings.string(key).map(withoutSlash) ?? standard
    }

    private static func withoutSlash(_ url: String) -> String { url.hasSuffix("/") ? String(url.dropLast()) : url }
}
