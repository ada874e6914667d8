import Commerce
import HTTP
import ServiceRuntime
import Testing

@testable import Verification

@LoopActor
@Suite struct VerificationConfigurationTests {
    private func mistakes(_ change: (inout VerificationConfiguration) throws -> Void) throws -> [String] {
        try World.configuration(change).findings().filter { $0.severity == .mistake }.map(\.field)
    }

    private func warnings(_ change: (inout VerificationConfiguration) throws -> Void) throws -> [String] {
        try World.configuration(change).findings().filter { $0.severity == .warning }.map(\.field)
    }

    @Test func configurationForTheRealStoresHasNothingToSay() throws {
        #expect(try World.configuration { $0.apple?.rootFingerprints = nil }.findings() == [])
    }

    /// Attack table row 26: a plain http base URL lets anybody on the way play store.
    @Test(arguments: [
        "http://api.storekit.apple.com", "http://10.0.0.1", "http://127.0.0.1.evil.com", "http://127.evil.com",
        "http://localhost.evil.com", "http://user@127.0.0.1", "http://127.0.0.1@evil.com", "http://evil.com/127.0.0.1",
        "ftp://127.0.0.1", "//127.0.0.1", "127.0.0.1", "", "https://", "https://:443", "https://a b", "https://a?b",
        "https://a#b", "https://a%2e", "https://a\\b", "https://a:99999", "https://a:x", "http://[::2]",
        "http://1270.0.0.1",
    ])
    func storeThatCouldBeSpoofedIsRefused(url: String) throws {
        #expect(try mistakes { $0.apple?.productionURL = url } == ["apple.productionURL"])
        #expect(try mistakes { $0.apple?.sandboxURL = url } == ["apple.sandboxURL"])
        #expect(try mistakes { $0.apple?.receiptProductionURL = url } == ["apple.receiptProductionURL"])
        #expect(try mistakes { $0.apple?.receiptSandboxURL = url } == ["apple.receiptSandboxURL"])
        #expect(try mistakes { $0.google?.baseURL = url } == ["google.baseURL"])
        #expect(throws: VerificationConfigurationError.self) {
            try World.verifier(.silent()) { $0.google?.baseURL = url }
        }
    }

    @Test(arguments: ["http://127.0.0.1:8080", "http://localhost:1/apple", "http://[::1]:9", "http://127.8.9.1"])
    func testStoreOnThisMachineIsShoutedAbout(url: String) throws {
        #expect(try mistakes { $0.google?.baseURL = url } == [])
        #expect(try warnings { $0.google?.baseURL = url }.contains("google.baseURL"))
    }

    @Test func foreignRootIsShoutedAbout() throws {
        #expect(try warnings { _ in } == ["apple.rootFingerprints"])
        #expect(try mistakes { $0.apple?.rootFingerprints = [] } == ["apple.rootFingerprints"])
        #expect(try mistakes { $0.apple?.rootFingerprints = ["xyz"] } == ["apple.rootFingerprints[0]"])
    }

    @Test func everyMistakeIsNamedAtOnce() throws {
        let found = try mistakes {
            $0.accountTokenNamespace = [1]
            $0.apple?.bundleIDs = [""]
            $0.apple?.key?.privateKeyPEM = Secret("-----BEGIN NOTHING-----")
            $0.google?.credentials = .accessToken(Secret("a b"))
        }
        #expect(
            found == ["apple.bundleIds", "apple.privateKeyFile", "google.accessTokenFile", "accountTokenNamespace"])
        #expect(try mistakes { $0.apple?.key = nil } == ["apple.privateKeyFile"])
        #expect(
            try mistakes {
                $0.apple?.key = nil
                $0.apple?.confirmation = .local
            } == [])
        #expect(
            try mistakes {
                $0.apple = nil
                $0.google = nil
            } == ["verification"])
    }

    @Test func creditingEverybodysTestPurchasesIsShoutedAbout() throws {
        #expect(try warnings { $0.sandbox = .everybody }.contains("sandbox.credit"))
    }

    @Test func secretsAreNeverPrinted() throws {
        let configuration = try World.configuration { $0.apple?.sharedSecret = Secret("s3cret") }
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in [dumped, String(describing: configuration), String(reflecting: configuration)] {
            #expect(!text.contains("PRIVATE KEY") && !text.contains("s3cret"))
        }
    }

    @Test func keyFileOfAServiceAccountIsRead() throws {
        let file = """
            {"type":"service_account","project_id":"x","private_key_id":"k1","private_key":"PEM",\
            "client_email":"a@b.c","token_uri":"https://example.com/token"}
            """
        let account = try GoogleConfiguration.ServiceAccount(keyFile: Array(file.utf8))
        #expect(account.clientEmail == "a@b.c" && account.privateKeyID == "k1")
        #expect(account.privateKeyPEM.text == "PEM" && account.tokenURL == "https://example.com/token")
        let other = file.replacing("service_account", with: "authorized_user")
        let error = #expect(throws: JSONError.self) {
            try GoogleConfiguration.ServiceAccount(keyFile: Array(other.utf8))
        }
        #expect(error?.path == "type")
    }
}
