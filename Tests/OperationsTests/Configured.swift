import Operations
import ServiceRuntime
import Signing
import TestSupport

/// Configurations of tests: a file, an environment, and the files they name, without a file system.
struct Configured {
    let configuration: TellerConfiguration?
    let mistakes: [String]
    let warnings: [String]

    init(
        _ json: String, environment: [String: String] = [:], files: [String: String] = Configured.files,
        part: TellerConfiguration.Part = .whole
    ) {
        let (configuration, findings) = TellerConfiguration.read(
            json: Array(json.utf8), environment: environment, part: part,
            readFile: { path in
                guard let text = files[path] else { throw UsageError("\(path): No such file or directory") }
                return Array(text.utf8)
            })
        self.configuration = configuration
        mistakes = findings.mistakes
        warnings = findings.warnings
    }

    static let redisPassword = "redis-s3cret/:@"
    static let sharedSecret = "apple-shared-s3cret"
    static let issuerID = "57246542-96fe-1a63-e053-0824d011072a"
    static let sha256 = String(repeating: "ab", count: 32)

    static let applePEM = (try? ES256Key.generate().pem) ?? ""
    static let googlePEM = (try? RS256Key.generate().pem) ?? ""

    static let files: [String: String] = [
        "/s/apple.p8": applePEM + "\n", "/s/shared": sharedSecret + "\n", "/s/redis": redisPassword + "\n",
        "/s/token": "access-t0ken\n", "/s/empty": "\n", "/s/ca.pem": "-----BEGIN CERTIFICATE-----\nAA==\n",
        "/s/google.json": serviceAccount,
    ]

    private static var serviceAccount: String {
        var writer = JSONWriter()
        writer.object {
            $0.member("type", "service_account")
            $0.member("client_email", "billing@example.iam.gserviceaccount.com")
            $0.member("private_key_id", "00aa11bb22cc")
            $0.member("private_key", googlePEM)
            $0.member("token_uri", "https://oauth2.googleapis.com/token")
        }
        return writer.text
    }

    /// Sections of a complete configuration; a test replaces some.
    static let sections: [(String, String)] = [
        ("redis", #"{"url":"redis://teller@127.0.0.1:6379/3","passwordFile":"/s/redis"}"#),
        ("catalogue", #""/etc/teller/catalogue.json""#),
        ("log", #"{"level":"debug","format":"json"}"#),
        (
            "api",
            """
            {"listen":"[::1]:8081","operationsListen":"127.0.0.1:9191","pendingMax":77,"stopSeconds":5,\
            "keys":[{"id":"game","sha256":"\(sha256)","scopes":["submit","read"],"waitsMax":9,\
            "requestsPerSecondMax":8,"notAfter":"2027-06-30T00:00:00Z"}]}
            """
        ),
        (
            "worker",
            #"{"operationsListen":"127.0.0.1:9201","inFlight":{"apple":1,"google":2,"google-duty":3},"stopSeconds":6}"#
        ),
        (
            "apple",
            """
            {"bundleIds":["com.mygame"],"environments":["Production"],"verify":"online","keyId":"K",\
            "issuerId":"\(issuerID)",\
            "privateKeyFile":"/s/apple.p8","sharedSecretFile":"/s/shared"}
            """
        ),
        (
            "google",
            """
            {"packageNames":["com.mygame","com.mygame.lite"],"serviceAccountFile":"/s/google.json",\
            "consume":"client"}
            """
        ),
        ("sandbox", #"{"credit":"listed","players":["qa-ada","qa-ben"]}"#),
    ]

    /// A complete configuration with these sections replaced, or left out where nil.
    static func json(_ changes: [String: String?] = [:]) -> String {
        var members = sections.filter { changes[$0.0] == nil }
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) { if let value { members.append((key, value)) } }
        return "{" + members.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}"
    }
}
