import Commerce
import Foundation
import ServiceRuntime
import Signing
import TestSupport
import Testing
import Verification

@testable import Operations

@Suite struct TellerConfigurationTests {
    @Test func everySettingIsTakenFromTheFile() throws {
        let read = Configured(Configured.json())
        #expect(read.mistakes.isEmpty && read.warnings.isEmpty)
        let configuration = try #require(read.configuration)
        #expect(configuration.redis.url.text == "redis://teller@127.0.0.1:6379/3")
        #expect(configuration.redis.password?.text == Configured.redisPassword)
        #expect(!configuration.redis.allowUnsafe)
        #expect(configuration.cataloguePath == "/etc/teller/catalogue.json")
        #expect(configuration.logLevel == .debug && configuration.logFormat == .json)
        #expect(configuration.api.listen == ListenAddress("[::1]:8081"))
        #expect(configuration.api.listen.host == "::1" && configuration.api.listen.port == 8081)
        #expect(configuration.api.operationsListen.port == 9191 && configuration.api.pendingMax == 77)
        #expect(configuration.api.stopDeadline == .seconds(5) && configuration.worker.stopDeadline == .seconds(6))
        let caller = try #require(configuration.api.callers.first)
        #expect(caller.id == "game" && caller.scopes == ["submit", "read"] && caller.secretSHA256.count == 32)
        #expect(caller.waitsMax == 9 && caller.requestsPerSecondMax == 8)
        #expect(caller.notAfterSeconds == UnixMilliseconds(rfc3339: "2027-06-30T00:00:00Z")?.seconds)
        #expect(configuration.worker.inFlightMax == ["apple": 1, "google": 2, "google-duty": 3])
        let verification = try #require(configuration.verification)
        let apple = try #require(verification.apple)
        #expect(apple.bundleIDs == ["com.mygame"] && apple.environments == [.production])
        #expect(apple.key?.keyID == "K" && apple.key?.issuerID == Configured.issuerID)
        #expect(apple.sharedSecret?.text == Configured.sharedSecret && apple.rootFingerprints == nil)
        let google = try #require(verification.google)
        #expect(google.packageNames.map(\.rawValue) == ["com.mygame", "com.mygame.lite"])
        #expect(google.consumption == .client)
        let players = try ["qa-ada", "qa-ben"].map { try PlayerID(validating: $0) }
        #expect(verification.sandbox == .listed(Set(players)))
    }

    @Test func whatIsLeftOutHasItsDefault() throws {
        let read = Configured(
            """
            {"catalogue":"c","apple":{"bundleIds":["com.mygame"],"verify":"local"},"_comment":"for people"}
            """)
        #expect(read.mistakes.isEmpty)
        #expect(
            read.warnings == [
                "api.keys: without a key nobody can call the API",
                "apple.verify: believes signatures alone: a refund since the signing goes unnoticed",
            ])
        let configuration = try #require(read.configuration)
        #expect(configuration.redis.url.text == "redis://127.0.0.1:6379/0" && configuration.redis.password == nil)
        #expect(configuration.api.listen == ListenAddress("127.0.0.1:8080"))
        #expect(configuration.api.operationsListen == ListenAddress("127.0.0.1:9090"))
        #expect(configuration.api.pendingMax == 1_000_000 && configuration.api.stopDeadline == .seconds(25))
        #expect(configuration.worker.operationsListen == ListenAddress("127.0.0.1:0"))
        #expect(configuration.worker.inFlightMax == ["apple": 1000, "google": 1000, "google-duty": 64])
        #expect(configuration.logFormat == nil && configuration.logLevel == .info)
        #expect(configuration.verification?.sandbox == .nobody && configuration.verification?.google == nil)
        #expect(configuration.verification?.apple?.environments == [.production, .sandbox])
    }

    @Test func everyMistakeIsToldAtOnce() {
        let read = Configured(
            """
            {"redis":{"url":7,"allowUnsafe":"maybe"},"log":{"level":"loud","format":"xml"},
            "api":{"listen":"nowhere","pendingMax":0,"stopSeconds":1.5,"keys":[{"id":"a.b","sha256":"zz","scopes":[]},
            {"id":"x","sha256":"\(Configured.sha256)","scopes":["admin"],"notAfter":"soon"}]},
            "worker":{"inFlight":{"apple":99999}},
            "apple":{"bundleIds":[],"environments":["Xcode"],"verify":"never","productionURL":"http://apple.example"},
            "google":{"packageNames":["no package"],"consume":"later"},
            "sandbox":{"credit":"listed","players":["../x"]}}
            """)
        #expect(read.configuration == nil)
        let paths = read.mistakes.map { String($0.prefix { $0 != ":" }) }
        for path in [
            "redis.url", "redis.allowUnsafe", "catalogue", "log.level", "log.format", "api.listen", "api.pendingMax",
            "api.stopSeconds", "api.keys[0].id", "api.keys[0].sha256", "api.keys[0].scopes", "api.keys[1].scopes",
            "api.keys[1].notAfter", "worker.inFlight.apple", "apple.bundleIds", "apple.environments", "apple.verify",
            "apple.productionURL", "google.packageNames", "google.consume", "google.serviceAccountFile",
            "sandbox.players",
        ] {
            #expect(paths.contains(path), "no mistake at \(path)")
        }
    }

    @Test(arguments: [
        ("{", "line 1"), ("[]", "the configuration: must be an object"), (#"{"log":7}"#, "log: must be an object"),
        (#"{"api":{"keys":{}}}"#, "api.keys: must be an array of objects"),
        (#"{"catalogue":"a","catalogue":"b"}"#, "duplicate key"),
        (#"{"api":{"keys":["x"]}}"#, "api.keys[0]: must be an object"),
        ("{\n\"redis\": {,}}", "line 2"),
    ])
    func brokenFileIsToldWithItsPlace(json: String, expected: String) {
        let read = Configured(json)
        #expect(read.configuration == nil)
        #expect(read.mistakes.contains { $0.contains(expected) }, "\(read.mistakes)")
    }

    @Test(arguments: [
        (["catalog": "\"x\""], "catalog: is not a setting; did you mean catalogue?"),
        (["redis": #"{"urll":"x"}"#], "redis.urll: is not a setting; did you mean url?"),
        (["redis": #"{"foo":"x"}"#], "redis.foo: is not a setting"),
        (["log": #"{"Level":"info"}"#], "log.Level: is not a setting; did you mean level?"),
        (
            ["api": #"{"operationListen":"127.0.0.1:1","keys":[]}"#],
            "api.operationListen: is not a setting; did you mean operationsListen?"
        ),
        (["worker": #"{"inFlight":{"aple":1}}"#], "worker.inFlight.aple: is not a setting; did you mean apple?"),
        (["sandbox": #"{"credits":"nobody"}"#], "sandbox.credits: is not a setting; did you mean credit?"),
        (["somethingElse": "1"], "somethingElse: is not a setting"),
        (
            ["google": #"{"packageNames":["com.mygame"],"serviceAccountFil":"/s/google.json"}"#],
            "google.serviceAccountFil: is not a setting; did you mean serviceAccountFile?"
        ),
    ])
    func misspeltSettingIsNamedWithAGuess(changes: [String: String], expected: String) {
        #expect(Configured(Configured.json(changes)).mistakes.contains(expected))
    }

    @Test(arguments: [
        "127.0.0.1:8080", "0.0.0.0:1", "[::]:65535", "[::1]:0", "localhost:80",
    ])
    func listenAddressIsRead(text: String) { #expect(ListenAddress(text) != nil) }

    @Test(arguments: [
        "", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "example.com:80", "[]:80", "1.2.3:80",
        "127.0.0.1:80:90x",
    ])
    func otherListenAddressesAreRefused(text: String) { #expect(ListenAddress(text) == nil) }

    @Test func callersMustDifferAndTheirDigestsBeHex() {
        let key = { (id: String, sha: String) in #"{"id":"\#(id)","sha256":"\#(sha)","scopes":["read"]}"# }
        let twice = Configured(
            Configured.json([
                "api": "{\"keys\":[\(key("a", Configured.sha256)),\(key("a", Configured.sha256))]}"
            ]))
        #expect(twice.mistakes == ["api.keys: the id a occurs twice"])
        for digest in ["", "ab", String(repeating: "+f", count: 32), String(repeating: "g", count: 64)] {
            let read = Configured(Configured.json(["api": "{\"keys\":[\(key("a", digest))]}"]))
            #expect(read.mistakes.contains { $0.hasPrefix("api.keys[0].sha256: ") })
        }
    }

    private static func key(_ secret: String) -> [String: String] {
        let digest = Digest.hex(Digest.sha256(Array(secret.utf8)))
        return ["api": #"{"keys":[{"id":"game","sha256":"\#(digest)","scopes":["read"]}]}"#]
    }

    private static func apple(_ change: (String, String)) -> [String: String] {
        [
            "apple":
                #"{"bundleIds":["com.mygame"],"keyId":"2X9R4HXF34","issuerId":"57246542-96fe-1a63-e053-0824d011072a","#
                .appending(#""privateKeyFile":"/s/apple.p8"}"#).replacing(change.0, with: change.1)
        ]
    }

    /// What a machine cannot use although it is well-formed, with the one mistake that says so.
    @Test(arguments: [
        (["proxy": #""nonsense""#], "proxy: must be http://host:port"),
        (["proxy": #""http://proxy""#], "proxy: must be http://host:port"),
        (apple(("com.mygame", "com my game")), "apple.bundleIds: may contain only letters"),
        (apple(("com.mygame", "com.mygame ")), "apple.bundleIds: may contain only letters"),
        (apple(("com.mygame", "com/mygame")), "apple.bundleIds: may contain only letters"),
        (apple(("2X9R4HXF34", "57246542-96fe-1a63")), "apple.keyId: must be letters and digits"),
        (apple(("2X9R4HXF34", "2X9R4 HXF34")), "apple.keyId: must be letters and digits"),
        (apple(("57246542-", "57246542 ")), "apple.issuerId: must be a UUID"),
        (apple(("0824d011072a", "0824d0")), "apple.issuerId: must be a UUID"),
        (apple(("57246542-96fe", "5724-654296fe")), "apple.issuerId: must be a UUID"),
        (apple(("57246542", "5724654g")), "apple.issuerId: must be a UUID"),
        (apple(("/s/apple.p8", "/s/token")), "apple.privateKeyFile: is not a P-256 private key in PEM: give the .p8"),
        (apple(("/s/apple.p8", "/s/rsa.pem")), "apple.privateKeyFile: is not a P-256 private key in PEM: give the .p8"),
        (
            ["google": #"{"packageNames":["com my game"],"serviceAccountFile":"/s/google.json"}"#],
            "google.packageNames: must be Android package names"
        ),
        (
            ["google": #"{"packageNames":["mygame"],"serviceAccountFile":"/s/google.json"}"#],
            "google.packageNames: must be Android package names"
        ),
        (
            ["google": #"{"packageNames":["com.mygame"],"serviceAccountFile":"/s/nokey.json"}"#],
            "google.serviceAccountFile: has no RSA private key in PEM: give the JSON key file"
        ),
        (key(""), "api.keys[0].sha256: is of no secret"), (key("\n"), "api.keys[0].sha256: is of no secret"),
        (key("SECRET"), "api.keys[0].sha256: is of no secret"),
        (
            ["api": #"{"keys":[{"id":"gäme","sha256":"\#(Configured.sha256)","scopes":["read"]}]}"#],
            "api.keys[0].id: must be printable ASCII"
        ),
        (
            ["api": #"{"listen":"127.0.0.1:9090"}"#], "api.operationsListen: is where api.listen is already"
        ),
    ])
    func unusableValueIsNamedWithARemedy(changes: [String: String], expected: String) {
        var files = Configured.files
        files["/s/rsa.pem"] = Configured.googlePEM
        files["/s/nokey.json"] = Configured.files["/s/google.json"]?.replacing("PRIVATE", with: "PUBLIC")
        let read = Configured(Configured.json(changes), files: files)
        #expect(read.mistakes.count == 1 && read.mistakes.first?.hasPrefix(expected) == true, "\(read.mistakes)")
    }

    @Test(arguments: [("[::1]:8081", "api.listen"), ("127.0.0.1:9191", "api.operationsListen")])
    func workerBesideTheAPINeedsAnotherAddress(address: String, taken: String) {
        let read = Configured(Configured.json(["worker": #"{"operationsListen":"\#(address)"}"#]))
        let warning = "worker.operationsListen: is where \(taken) is"
        #expect(read.mistakes.isEmpty && read.warnings.count { $0.hasPrefix(warning) } == 1, "\(read.warnings)")
        let usual = Configured(Configured.json())
        #expect(!usual.warnings.contains { $0.hasPrefix("worker.") })
    }

    @Test func anEmptyProxyIsNone() throws {
        let read = Configured(Configured.json(["proxy": #""http://proxy:3128""#]), environment: ["TELLER_PROXY": ""])
        #expect(read.mistakes.isEmpty)
        #expect(try #require(read.configuration).proxyURL == nil)
    }

    @Test(arguments: [
        ("127.0.0.1:80", "127.0.0.1:80", true), ("localhost:80", "127.0.0.1:80", true), ("[::1]:80", "[::1]:80", true),
        ("0.0.0.0:80", "127.0.0.1:80", true), ("[::]:80", "127.0.0.1:80", true), ("[::]:80", "0.0.0.0:80", true),
        ("127.0.0.1:80", "127.0.0.1:81", false), ("127.0.0.1:0", "127.0.0.1:0", false),
        ("127.0.0.1:80", "127.0.0.2:80", false), ("0.0.0.0:80", "[::1]:80", false),
    ])
    func listenersMustNotMeet(one: String, other: String, meet: Bool) throws {
        let addresses = try [#require(ListenAddress(one)), #require(ListenAddress(other))]
        #expect(addresses[0].overlaps(addresses[1]) == meet)
        #expect(addresses[1].overlaps(addresses[0]) == meet)
    }

    @Test func withoutAStoreNothingCanBeSold() {
        let read = Configured(Configured.json(["apple": nil, "google": nil]))
        #expect(read.mistakes == ["apple, google: at least one of the stores must be configured"])
        let null = Configured(Configured.json(["apple": "null", "google": "null"]))
        #expect(null.mistakes == read.mistakes)
    }

    // MARK: - Warnings

    @Test(arguments: [
        (["redis": #"{"allowUnsafe":true}"#], "redis.allowUnsafe"),
        (["sandbox": #"{"credit":"everybody"}"#], "sandbox.credit"), (["api": "{}"], "api.keys"),
        (["sandbox": #"{"credit":"listed"}"#], "sandbox.players"),
        (["sandbox": #"{"credit":"listed","players":[]}"#], "sandbox.players"),
        (["sandbox": #"{"credit":"nobody","players":["qa-ada"]}"#], "sandbox.players"),
        (["certificateAuthoritiesFile": "\"/s/ca.pem\""], "certificateAuthoritiesFile"),
        (
            [
                "apple": """
                {"bundleIds":["com.mygame"],"verify":"local"}
                """
            ], "apple.verify"
        ),
        (
            [
                "apple": """
                {"bundleIds":["com.mygame"],"verify":"local","rootFingerprints":["\(Configured.sha256)"]}
                """
            ], "apple.rootFingerprints"
        ),
        (
            ["apple": #"{"bundleIds":["com.mygame"],"verify":"local","productionURL":"http://127.0.0.1:9"}"#],
            "apple.productionURL"
        ),
        (
            [
                "google":
                    #"{"packageNames":["com.mygame"],"serviceAccountFile":"/s/google.json","baseURL":"http://localhost:9"}"#
            ], "google.baseURL"
        ),
    ])
    func whatWeakensTheProtectionOfMoneyIsSaidAloud(changes: [String: String], path: String) {
        let read = Configured(Configured.json(changes))
        #expect(read.configuration != nil && read.mistakes.isEmpty, "\(read.mistakes)")
        // "local" saves the rows a key, and is itself said aloud.
        let warnings = read.warnings.filter { path == "apple.verify" || !$0.hasPrefix("apple.verify: ") }
        #expect(warnings.count == 1 && warnings.first?.hasPrefix(path + ": ") == true, "\(read.warnings)")
    }

    @Test(arguments: ["productionURL", "sandboxURL", "receiptProductionURL", "receiptSandboxURL"])
    func plainHTTPOverANetworkIsAMistake(setting: String) {
        let read = Configured(
            Configured.json([
                "apple": "{\"bundleIds\":[\"com.mygame\"],\"verify\":\"local\",\"\(setting)\":\"http://10.0.0.1\"}"
            ]))
        #expect(read.mistakes.count == 1 && read.mistakes.first?.hasPrefix("apple.\(setting): must be https") == true)
    }

    @Test func certificateAuthoritiesMustBeSome() {
        let read = Configured(Configured.json(["certificateAuthoritiesFile": "\"/s/token\""]))
        #expect(read.mistakes == ["certificateAuthoritiesFile: holds no certificate in PEM"])
        let missing = Configured(Configured.json(["certificateAuthoritiesFile": "\"/s/gone\""]))
        #expect(missing.mistakes.count == 1)
    }
}

/// Secrets come from files, and show up nowhere.
@Suite struct ConfiguredSecretsTests {
    private static let secrets = [
        Configured.redisPassword, "redis-s3cret", Configured.sharedSecret, "access-t0ken",
        String(Configured.applePEM.dropFirst(40).prefix(30)), String(Configured.googlePEM.dropFirst(40).prefix(30)),
    ]

    private func shows(_ text: String) -> Bool { Self.secrets.contains { text.contains($0) } }

    @Test func configurationDoesNotPrintThem() throws {
        for json in [
            Configured.json(),
            Configured.json(["google": #"{"packageNames":["com.mygame"],"accessTokenFile":"/s/token"}"#]),
        ] {
            let configuration = try #require(Configured(json).configuration)
            var dumped = ""
            dump(configuration, to: &dumped)
            #expect(!shows("\(configuration)") && !shows(String(reflecting: configuration)) && !shows(dumped))
        }
    }

    @Test func mistakesAndWarningsDoNotQuoteThem() {
        // Each file where it does not belong, and secrets given as values.
        for (path, text) in Configured.files where path != "/s/empty" {
            for section in [
                ["apple": "{\"bundleIds\":[\"b\"],\"keyId\":\"k\",\"issuerId\":\"i\",\"privateKeyFile\":\"\(path)\"}"],
                ["google": "{\"packageNames\":[\"com.mygame\"],\"serviceAccountFile\":\"\(path)\"}"],
                ["redis": "{\"url\":\"rediss://u:redis-s3cret@h\",\"passwordFile\":\"\(path)\"}"],
            ] {
                let read = Configured(Configured.json(section))
                let said = (read.mistakes + read.warnings).joined(separator: "\n")
                #expect(!shows(said) && !said.contains(text))
            }
        }
        let value = Configured(Configured.json(["sandbox": #"{"credit":"access-t0ken"}"#]))
        #expect(!value.mistakes.isEmpty && !shows(value.mistakes.joined()))
    }

    @Test func unreadableSecretIsOneMistakeAndNotTwo() {
        let files = Configured.files.filter { $0.key != "/s/apple.p8" && $0.key != "/s/google.json" }
        let read = Configured(Configured.json(), files: files)
        #expect(
            read.mistakes == [
                "apple.privateKeyFile: cannot be read: /s/apple.p8: No such file or directory",
                "google.serviceAccountFile: cannot be read: /s/google.json: No such file or directory",
            ])
    }

    @Test func emptySecretIsAMistake() {
        let read = Configured(Configured.json(["redis": #"{"passwordFile":"/s/empty"}"#]))
        #expect(read.mistakes == ["redis.passwordFile: the file is empty"])
    }

    @Test func onlyOneOfGooglesCredentialsMayBeNamed() {
        let both = Configured(
            Configured.json([
                "google": """
                {"packageNames":["com.mygame"],"serviceAccountFile":"/s/google.json","accessTokenFile":"/s/token"}
                """
            ]))
        #expect(both.mistakes == ["google.accessTokenFile: excludes serviceAccountFile: name one of them"])
        let wrong = Configured(
            Configured.json(["google": #"{"packageNames":["com.mygame"],"serviceAccountFile":"/s/token"}"#]))
        #expect(wrong.mistakes.count == 1)
        #expect(wrong.mistakes.first?.hasPrefix("google.serviceAccountFile: is not a service account") == true)
    }

    /// The API runs as a user that may not read the stores' keys.
    @Test func frontNeedsNoStoreSecret() throws {
        let files = Configured.files.filter { $0.key == "/s/redis" }
        let read = Configured(Configured.json(), files: files, part: .front)
        #expect(read.mistakes.isEmpty)
        let configuration = try #require(read.configuration)
        #expect(configuration.verification == nil && configuration.api.callers.count == 1)
        // Misspelt settings of the stores are still told.
        let misspelt = Configured(
            Configured.json(["apple": #"{"bundelIds":["x"]}"#]), files: files, part: .front)
        #expect(misspelt.mistakes == ["apple.bundelIds: is not a setting; did you mean bundleIds?"])
    }
}

/// `TELLER_…` variables.
@Suite struct EnvironmentTests {
    @Test func variableWinsOverTheFile() throws {
        let read = Configured(
            Configured.json(),
            environment: [
                "TELLER_REDIS_URL": "unix:///run/redis.sock", "TELLER_REDIS_ALLOW_UNSAFE": "false",
                "TELLER_API_OPERATIONS_LISTEN": "127.0.0.1:7", "TELLER_API_PENDING_MAX": "5",
                "TELLER_WORKER_IN_FLIGHT_GOOGLE_DUTY": "8", "TELLER_LOG_LEVEL": "error",
                "TELLER_APPLE_BUNDLE_IDS": "com.a,com.b", "TELLER_SANDBOX_CREDIT": "nobody",
                "TELLER_CATALOGUE": "/other.json", "TELLER_GOOGLE_BASE_URL": "https://google.example/", "PATH": "/bin",
                "TELLERX": "not ours",
            ])
        #expect(read.mistakes.isEmpty)
        let configuration = try #require(read.configuration)
        #expect(configuration.redis.url.text.hasSuffix("/run/redis.sock"))
        #expect(configuration.api.operationsListen.port == 7 && configuration.api.pendingMax == 5)
        #expect(configuration.worker.inFlightMax["google-duty"] == 8 && configuration.logLevel == .error)
        #expect(configuration.verification?.apple?.bundleIDs == ["com.a", "com.b"])
        #expect(configuration.verification?.google?.baseURL == "https://google.example")
        #expect(configuration.verification?.sandbox == .nobody && configuration.cataloguePath == "/other.json")
    }

    @Test func wholeConfigurationMayComeFromIt() throws {
        let read = Configured(
            "",
            environment: [
                "TELLER_CATALOGUE": "c", "TELLER_GOOGLE_PACKAGE_NAMES": "com.mygame",
                "TELLER_GOOGLE_ACCESS_TOKEN_FILE": "/s/token",
            ])
        #expect(read.mistakes.isEmpty)
        let configuration = try #require(read.configuration)
        #expect(configuration.verification?.google?.packageNames.map(\.rawValue) == ["com.mygame"])
        #expect(configuration.verification?.apple == nil)
    }

    @Test(arguments: [
        ("TELLER_API_PENDING_MAX", "many", "api.pendingMax: must be a whole number from 1 to 100000000"),
        ("TELLER_REDIS_ALLOW_UNSAFE", "perhaps", "redis.allowUnsafe: must be true or false"),
        ("TELLER_API_LISTENS", "127.0.0.1:1", "TELLER_API_LISTENS: is not a setting"),
        ("TELLER_API_KEYS", "x", "TELLER_API_KEYS: is not a setting"),
        ("TELLER_APPLE_BUNDLE_ID", "x", "TELLER_APPLE_BUNDLE_ID: is not a setting"),
    ])
    func wrongVariableIsAMistake(name: String, value: String, expected: String) {
        #expect(Configured(Configured.json(), environment: [name: value]).mistakes == [expected])
    }

    /// Service units set them for every deployment.
    @Test func variableForAStoreThatIsNotConfiguredHasNoEffectAndSaysSo() {
        let read = Configured(
            Configured.json(["google": nil]),
            environment: [
                "TELLER_APPLE_PRIVATE_KEY_FILE": "/s/apple.p8", "TELLER_GOOGLE_SERVICE_ACCOUNT_FILE": "/nowhere.json",
                "TELLER_GOOGLE_CONSUME": "nonsense",
            ])
        #expect(read.mistakes.isEmpty)
        #expect(
            read.warnings == [
                "TELLER_GOOGLE_CONSUME: has no effect, since google.packageNames is not set",
                "TELLER_GOOGLE_SERVICE_ACCOUNT_FILE: has no effect, since google.packageNames is not set",
            ])
        #expect(read.configuration?.verification?.google == nil)
    }
}

/// What is documented is what the code does.
@Suite struct ConfigurationReferenceTests {
    /// The settings in the first column of deploy/CONFIGURATION.md; `.name` continues the path before it.
    private static func documented() throws -> [String] {
        let text = try String(contentsOfFile: Repository.root + "/deploy/CONFIGURATION.md", encoding: .utf8)
        var paths: [String] = []
        for line in text.split(separator: "\n") where line.hasPrefix("| `") {
            let cell = line.dropFirst(2).prefix { $0 != "|" }
            var last = ""
            for (index, part) in cell.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            where index % 2 == 1 {
                let stem = last.split(separator: ".").dropLast().joined(separator: ".")
                last = part.hasPrefix(".") ? stem + part : String(part)
                paths.append(last)
            }
        }
        return paths
    }

    @Test func everyDocumentedSettingExists() throws {
        let paths = try Self.documented()
        #expect(paths.count > 30)
        for path in paths {
            // A value of the wrong type everywhere: what exists complains about the value, or takes it.
            var json = "\"x\""
            for part in path.split(separator: ".").reversed() {
                json = part.hasSuffix("[]") ? "{\"\(part.dropLast(2))\":[\(json)]}" : "{\"\(part)\":\(json)}"
            }
            let unknown = Configured(json).mistakes.filter { $0.contains("is not a setting") }
            #expect(unknown.isEmpty, "\(unknown)")
        }
    }

    @Test func documentedNumbersAreTheDefaults() throws {
        let text = try String(contentsOfFile: Repository.root + "/deploy/CONFIGURATION.md", encoding: .utf8)
        let configuration = try #require(
            Configured(#"{"catalogue":"c","apple":{"bundleIds":["b"],"verify":"local"}}"#).configuration)
        let inFlight = ["apple", "google", "google-duty"].map { "\(configuration.worker.inFlightMax[$0] ?? 0)" }
        for row in [
            "| `api.pendingMax` | \(configuration.api.pendingMax) |",
            "`.google-duty` | \(inFlight.joined(separator: ", ")) |",
            "`worker.stopSeconds` | \(Int(configuration.worker.stopDeadline.inSeconds)) |",
            "| `redis.url` | `\(configuration.redis.url.text)` |",
        ] {
            #expect(text.contains(row), "\(row)")
        }
    }
}
