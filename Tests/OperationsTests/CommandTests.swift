import Foundation
import Operations
import ServiceRuntime
import Signing
import TestSupport
import Testing

/// The built program: help, usage errors, `verify` and `config check`, with their exit codes.
@Suite(.serialized) struct CommandTests {
    private static let commands = [
        "init", "api", "worker", "status", "dead list", "dead show", "dead replay", "dead drop", "verify",
        "config check", "version",
    ]

    @Test func helpListsEveryCommand() async throws {
        for words in [["--help"], ["-h"], ["help"]] {
            let run = try await TellerProgram.run(words)
            #expect(run.code == 0 && run.errors.isEmpty)
            #expect(run.output.hasPrefix("teller: ") && run.output.contains("Usage: teller COMMAND"))
            for command in Self.commands { #expect(run.output.contains("\n  \(command) ")) }
        }
    }

    @Test(arguments: commands) func helpExplainsTheCommand(command: String) async throws {
        for option in ["--help", "-h"] {
            let run = try await TellerProgram.run(command.split(separator: " ").map(String.init) + [option])
            #expect(run.code == 0 && run.errors.isEmpty)
            #expect(run.output.contains("Usage: teller \(command)"))
            #expect(run.output.split(separator: "\n").allSatisfy { $0.count <= 130 })
        }
    }

    @Test func helpExplainsAFamilyOfCommands() async throws {
        let run = try await TellerProgram.run(["dead", "--help"])
        #expect(run.code == 0 && run.errors.isEmpty)
        #expect(run.output.contains("balance-too-large"))
        for command in ["list", "show", "replay", "drop"] {
            #expect(run.output.contains("Usage: teller dead \(command)"))
        }
    }

    @Test(
        arguments: [
            ([], "Usage: teller COMMAND"), (["fly"], "no command \"fly\""), (["dead"], "Usage: teller dead COMMAND"),
            (["config"], "\n  config check  "), (["dead", "bury"], "teller: no command \"dead bury\""),
            (["dead", "bury"], "\n  dead replay  "), (["dead", "drop"], "give ids, or --all-malformed"),
            (["dead", "drop", "--all-malformed", "x"], "give ids, or --all-malformed"),
            (["dead", "drop", "--all-malformed", "--force"], "--force is for ids"),
            (["verify", "/dev/zero"], "/dev/zero: is longer than 1048576 bytes"), (["verify", "/"], "Is a directory"),
            (["api", "--port", "1"], "there is no option --port"), (["api", "extra"], "does not take \"extra\""),
            (["api", "--config"], "the value is missing"), (["api", "--config", "a", "--config", "b"], "given twice"),
            (["worker", "--allow-unsafe-redis=yes"], "takes no value"),
            (["api", "--config", "/nowhere.json"], "/nowhere.json"),
            (["config", "check", "--config", "/nowhere.json"], "No such file"), (["verify"], "give one file"),
            (["verify", "a", "b"], "give one file"), (["verify", "/nowhere.jws"], "No such file"),
            (["verify", "--at", "noon", "-"], "--at: must be a time"),
            (["verify", "--root", "zz", "-"], "--root: must be 64"),
            (["verify", "--environment", "Xcode", "-"], "--environment: must be Production or Sandbox"),
            (["dead", "show"], "give one id"), (["dead", "replay"], "give ids, or --all"),
            (["dead", "replay", "--all", "x"], "give ids, or --all"), (["dead", "list", "--limit", "0"], "--limit"),
            (["dead", "list", "--limit", "many"], "--limit"), (["version", "x"], "does not take"),
        ] as [([String], String)])
    func callingItWronglyIsToldAndEndsWithTwo(words: [String], expected: String) async throws {
        let run = try await TellerProgram.run(words)
        #expect(run.code == 2)
        #expect(run.output.isEmpty && run.errors.contains(expected), "\(run.errors)")
    }

    @Test func versionIsPrinted() async throws {
        for words in [["version"], ["--version"]] {
            let run = try await TellerProgram.run(words)
            #expect(run.code == 0 && run.output.hasPrefix("teller ") && run.errors.isEmpty)
        }
        #expect(try await TellerProgram.run(["--version", "x"]).code == 2)
    }

    @Test func mistakesInTheConfigurationAreToldByEveryCommand() async throws {
        for command in [["api"], ["worker"], ["init"], ["status"], ["dead", "list"]] {
            let run = try await TellerProgram.run(
                command, environment: ["TELLER_REDIS_ALLOW_UNSAFE": "perhaps", "TELLER_LOG_LEVEL": "loud"])
            #expect(run.code == 2)
            for part in ["redis.allowUnsafe: ", "log.level: ", "catalogue: is required", "apple, google: "] {
                #expect(run.errors.contains(part), "\(command): \(run.errors)")
            }
        }
    }

    @Test func wrongRedisURLIsAMistakeWithoutItsPassword() async throws {
        let run = try await TellerProgram.run(
            ["status"],
            environment: [
                "TELLER_REDIS_URL": "rediss://me:s3cret@example.com", "TELLER_CATALOGUE": "c",
                "TELLER_APPLE_BUNDLE_IDS": "b",
            ])
        #expect(run.code == 2 && run.errors.contains("redis.url: ") && !run.errors.contains("s3cret"))
    }

    // MARK: - verify

    @Test func verifyEndsWithZeroOneOrTwo() async throws {
        let chain = try MintedChain.make(around: .now)
        let receipt = { (bundle: String) in
            let now = UnixMilliseconds.now.value
            return try chain.sign(
                Array(
                    """
                    {"transactionId":"2000001234500777","bundleId":"\(bundle)","environment":"Sandbox",\
                    "purchaseDate":\(now - 5000),"signedDate":\(now - 1000)}
                    """.utf8))
        }
        let root = ["--root", chain.root.fingerprint]
        let app = ["--bundle-id", "com.mygame", "--environment", "Sandbox"]
        let good = try receipt("com.mygame")
        for (words, input, code, part) in [
            (root + app + ["-"], good, Int32(0), "VERIFIED"), (root + ["-"], good + "\n", 0, "VERIFIED"),
            (app + ["-"], good, 1, "REFUSED"), (root + app + ["-"], try receipt("com.other"), 1, "REFUSED"),
            (root + ["--environment", "Production", "-"], good, 1, "REFUSED"),
            (root + ["--at", "2020-01-01T00:00:00Z", "-"], good, 1, "REFUSED"), (["-"], "hello", 1, "Not a receipt"),
            (root + ["-"], good.dropLast(8) + "AAAAAAAA", 1, "REFUSED"), (["-"], "", 1, "Not a receipt"),
        ] {
            let run = try await TellerProgram.run(["verify"] + words, input: input)
            #expect(run.code == code && run.output.contains(part) && run.errors.isEmpty, "\(words): \(run)")
        }
        try await TellerProgram.withDirectory { directory in
            let path = directory + "/receipt.jws"
            try good.write(toFile: path, atomically: false, encoding: .utf8)
            let run = try await TellerProgram.run(["verify"] + root + app + [path])
            #expect(run.code == 0 && run.output.contains("2000001234500777"))
            try Data([0xFF, 0xFE, 0x00]).write(to: URL(fileURLWithPath: path))
            let binary = try await TellerProgram.run(["verify", path])
            #expect(binary.code == 2 && binary.errors.contains("is not text"))
        }
    }

    // MARK: - config check

    /// deploy/teller.example.json, filled in, with its files in a directory of the test.
    private func example(in directory: String, isFilledIn: Bool = true) throws -> String {
        var text = try String(contentsOfFile: Repository.root + "/deploy/teller.example.json", encoding: .utf8)
            .replacing("/etc/teller", with: directory)
        if isFilledIn {
            for (kind, value) in [
                ("SHA256", Configured.sha256), ("BUNDLE", "com.mygame"), ("ISSUER", Configured.issuerID),
                ("KEY", "2X9R4HXF34"), ("PACKAGE", "com.mygame"), ("PLAYER", "qa-ada"),
            ] {
                text.replace(try Regex("\"REPLACE-WITH-\(kind)[^\"]*\""), with: "\"\(value)\"")
            }
        }
        for folder in ["/secrets/stores"] {
            try FileManager.default.createDirectory(
                atPath: directory + folder, withIntermediateDirectories: true)
        }
        try FileManager.default.copyItem(
            atPath: Repository.root + "/deploy/catalogue.example.json", toPath: directory + "/catalogue.json")
        let files = [
            "/secrets/teller-ops.password": Configured.redisPassword, "/secrets/stores/apple.p8": Configured.applePEM,
            "/secrets/stores/google.json": Configured.files["/s/google.json"] ?? "", "/teller.json": text,
        ]
        for (name, content) in files {
            try content.write(toFile: directory + name, atomically: false, encoding: .utf8)
        }
        return directory + "/teller.json"
    }

    @Test func exampleConfigurationIsUsable() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory)
            let run = try await TellerProgram.run(["config", "check", "--config", path])
            #expect(run.code == 0, "\(run)")
            #expect(run.output == "catalogue: 3 products\n\(path): usable\n" && run.errors.isEmpty)
            let named = try await TellerProgram.run(["config", "check"], environment: ["TELLER_CONFIG": path])
            #expect(named.code == 0 && named.output == run.output)
        }
    }

    @Test func placeholdersOfTheExampleAreMistakes() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory, isFilledIn: false)
            let run = try await TellerProgram.run(["config", "check", "--config", path])
            #expect(run.code == 1)
            let mistakes = run.output.split(separator: "\n").filter { $0.hasPrefix("MISTAKE") }
            #expect(
                mistakes.map(String.init)
                    == [
                        "api.keys[0].sha256", "api.keys[1].sha256", "apple.bundleIds", "apple.keyId", "apple.issuerId",
                        "google.packageNames", "sandbox.players",
                    ].map { "MISTAKE  \($0): is still the example's: put in your own" })
        }
    }

    @Test func misspeltFieldOfTheCatalogueIsAWarning() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory)
            let catalogue = try String(contentsOfFile: directory + "/catalogue.json", encoding: .utf8)
            try catalogue.replacing("\"bonusGemAmount\":0", with: "\"bonusGemAmout\":10")
                .write(toFile: directory + "/catalogue.json", atomically: false, encoding: .utf8)
            let run = try await TellerProgram.run(["config", "check", "--config", path])
            #expect(run.code == 0, "\(run)")
            let warning = "line 3: [1].bonusGemAmout: is not a known field; did you mean bonusGemAmount?"
            #expect(run.output.contains("WARNING  catalogue: \(warning)\n"), "\(run.output)")
        }
    }

    /// What the units of deploy/ set, for a game that is sold in one store only.
    @Test func oneUnitFitsADeploymentWithOneStore() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory)
            var text = try String(contentsOfFile: path, encoding: .utf8)
            let google = try #require(text.firstRange(of: try Regex(#""google": \{[^}]*\},"#)))
            text.removeSubrange(google)
            try text.write(toFile: path, atomically: false, encoding: .utf8)
            let environment = [
                "TELLER_APPLE_PRIVATE_KEY_FILE": directory + "/secrets/stores/apple.p8",
                "TELLER_GOOGLE_SERVICE_ACCOUNT_FILE": directory + "/nowhere.json",
                "TELLER_WORKER_OPERATIONS_LISTEN": "127.0.0.1:9101",
            ]
            let run = try await TellerProgram.run(["config", "check", "--config", path], environment: environment)
            #expect(run.code == 0, "\(run)")
            #expect(run.output.contains("WARNING  TELLER_GOOGLE_SERVICE_ACCOUNT_FILE: has no effect"))
        }
    }

    @Test func frontCanBeCheckedWithoutTheStoresKeys() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory)
            try FileManager.default.removeItem(atPath: directory + "/secrets/stores")
            let front = try await TellerProgram.run(["config", "check", "--front", "--config", path])
            #expect(front.code == 0, "\(front)")
            let whole = try await TellerProgram.run(["config", "check", "--config", path])
            #expect(whole.code == 1 && whole.output.contains("MISTAKE  apple.privateKeyFile: cannot be read"))
            #expect(whole.output.hasSuffix("2 mistakes\n"))
        }
    }

    @Test func eachLineOfAMistakenCatalogueHasItsPrefix() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory)
            try #"[{"productId":"a/b"},{"productId":"c/d"}]"#.write(
                toFile: directory + "/catalogue.json", atomically: false, encoding: .utf8)
            let run = try await TellerProgram.run(["config", "check", "--config", path])
            let lines = run.output.split(separator: "\n")
            #expect(run.code == 1 && lines.count > 2, "\(run)")
            #expect(lines.dropLast().allSatisfy { $0.hasPrefix("MISTAKE  catalogue: ") }, "\(run)")
            #expect(lines.last == "\(path): \(lines.count - 1) mistakes", "\(run)")
        }
    }

    @Test func everyMistakeAndWarningIsPrinted() async throws {
        try await TellerProgram.withDirectory { directory in
            let path = try self.example(in: directory)
            try #"[{"productId":"a/b"}]"#.write(
                toFile: directory + "/catalogue.json", atomically: false, encoding: .utf8)
            let run = try await TellerProgram.run(
                ["config", "check", "--config", path],
                environment: [
                    "TELLER_REDIS_URL": "http://x", "TELLER_REDIS_ALLOW_UNSAFE": "true",
                    "TELLER_APPLE_ROOT_FINGERPRINTS": Configured.sha256,
                    "TELLER_GOOGLE_BASE_URL": "http://127.0.0.1:1", "TELLER_SANDBOX_CREDIT": "everybody",
                ])
            #expect(run.code == 1)
            for part in [
                "WARNING  redis.allowUnsafe", "WARNING  apple.rootFingerprints", "WARNING  google.baseURL",
                "WARNING  sandbox.credit", "MISTAKE  redis.url", "MISTAKE  catalogue: ",
            ] {
                #expect(run.output.contains(part), "\(part) in \(run.output)")
            }
            #expect(!run.output.contains(Configured.redisPassword))
        }
    }
}
