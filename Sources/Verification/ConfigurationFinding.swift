import Commerce
import Signing

/// Something wrong, or loudly worth saying, about a configuration.
///
/// Never contains a secret.
public struct ConfigurationFinding: Sendable, Equatable, CustomStringConvertible {
    /// How bad it is.
    public enum Severity: Sendable {
        /// Refuses to start.
        case mistake
        /// Starts, but must be read: right for tests, wrong where money is real.
        case warning
    }

    /// How bad it is.
    public let severity: Severity
    /// The setting as the configuration reference names it, such as `apple.productionURL`.
    public let field: String
    /// The rule as a sentence without a subject.
    public let message: String

    /// For example "apple.bundleIds: must not be empty".
    public var description: String { "\(field): \(message)" }
}

/// A configuration that a ``PurchaseVerifier`` refuses to run with.
public struct VerificationConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Every mistake, in the order of the configuration.
    public let mistakes: [ConfigurationFinding]

    /// All mistakes in one line.
    public var description: String { mistakes.map(\.description).joined(separator: "; ") }
}

extension VerificationConfiguration {
    /// Everything wrong with this configuration at once, and everything that deserves to be shouted about.
    public func findings() -> [ConfigurationFinding] {
        var findings = Findings()
        if let apple { apple.check(&findings) }
        if let google { google.check(&findings) }
        if apple == nil, google == nil { findings.mistake("verification", "names no store") }
        if let accountTokenNamespace, accountTokenNamespace.count != 16 {
            findings.mistake("accountTokenNamespace", "must have 16 bytes")
        }
        if sandbox == .everybody {
            findings.warning("sandbox.credit", "credits everybody's sandbox and test purchases, which cost nothing")
        }
        if sandbox == .nobody, let apple, !apple.environments.contains(.production) {
            findings.warning("sandbox.credit", "credits nobody, and only sandbox purchases are looked at")
        }
        return findings.all
    }
}

/// Findings while they are collected.
private struct Findings {
    var all: [ConfigurationFinding] = []

    mutating func mistake(_ field: String, _ message: String) {
        all.append(ConfigurationFinding(severity: .mistake, field: field, message: message))
    }

    mutating func warning(_ field: String, _ message: String) {
        all.append(ConfigurationFinding(severity: .warning, field: field, message: message))
    }

    /// https, or http to this very machine, where no wire can be tapped (attack table row 26).
    mutating func checkURL(_ text: String, _ field: String) {
        guard let url = StoreBaseURL(text) else {
            mistake(field, "must be an http or https URL without user, query and fragment")
            return
        }
        if url.isEncrypted { return }
        if url.isLoopback {
            warning(field, "is plain http to this machine: a test store, not the real one")
        } else {
            mistake(field, "must be https: over plain http anybody on the way can say \"purchased\"")
        }
    }
}

extension AppleConfiguration {
    fileprivate func check(_ findings: inout Findings) {
        if bundleIDs.isEmpty || bundleIDs.contains("") { findings.mistake("apple.bundleIds", "must not be empty") }
        // Of any other app every receipt would be rejected, for good.
        if !bundleIDs.allSatisfy({ Self.isMade(of: "-.", $0) }) {
            findings.mistake(
                "apple.bundleIds", "may contain only letters, digits, - and ., as App Store Connect shows them")
        }
        if environments.isEmpty { findings.mistake("apple.environments", "must not be empty") }
        switch (confirmation, key) {
        case (.online, nil): findings.mistake("apple.privateKeyFile", "is needed to confirm purchases online")
        case (_, let key?):
            // A key id has no hyphens: this finds the two of them swapped.
            if key.keyID.isEmpty || !Self.isMade(of: "", key.keyID) {
                findings.mistake(
                    "apple.keyId", "must be letters and digits, as App Store Connect shows it beside the key")
            }
            if UUIDv5.bytes(key.issuerID) == nil {
                findings.mistake("apple.issuerId", "must be a UUID, as App Store Connect shows it above the keys")
            }
            if (try? ES256Key(pem: key.privateKeyPEM.text)) == nil {
                findings.mistake(
                    "apple.privateKeyFile", "is not a P-256 private key in PEM: give the .p8 file of App Store Connect")
            }
        case (.local, nil): break
        }
        if confirmation == .local {
            findings.warning("apple.verify", "believes signatures alone: a refund since the signing goes unnoticed")
        }
        findings.checkURL(productionURL, "apple.productionURL")
        findings.checkURL(sandboxURL, "apple.sandboxURL")
        findings.checkURL(receiptProductionURL, "apple.receiptProductionURL")
        findings.checkURL(receiptSandboxURL, "apple.receiptSandboxURL")
        checkRoots(&findings)
    }

    /// Whether a text is ASCII letters, digits and what else is allowed.
    private static func isMade(of others: String, _ text: String) -> Bool {
        text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: others.utf8.contains(byte)
            }
        }
    }

    private func checkRoots(_ findings: inout Findings) {
        guard let rootFingerprints else { return }
        do throws(TrustedRoots.InvalidFingerprint) {
            let roots = try TrustedRoots(sha256Fingerprints: rootFingerprints)
            if rootFingerprints.isEmpty {
                findings.mistake("apple.rootFingerprints", "trusts nobody: leave it out to trust Apple")
            } else if !roots.isOnlyApple {
                findings.warning(
                    "apple.rootFingerprints", "trusts a root that is not Apple's: its owner can make purchases")
            }
        } catch {
            findings.mistake("apple.rootFingerprints[\(error.index)]", "is not a SHA-256 fingerprint in hexadecimal")
        }
    }
}

extension GoogleConfiguration {
    fileprivate func check(_ findings: inout Findings) {
        if packageNames.isEmpty { findings.mistake("google.packageNames", "must not be empty") }
        switch credentials {
        case .serviceAccount(let account):
            if account.clientEmail.isEmpty {
                findings.mistake("google.serviceAccountFile", "has no client_email")
            }
            if (try? RS256Key(pem: account.privateKeyPEM.text)) == nil {
                findings.mistake(
                    "google.serviceAccountFile",
                    "has no RSA private key in PEM: give the JSON key file as Google Cloud made it")
            }
            findings.checkURL(account.tokenURL, "google.tokenURL")
        case .accessToken(let token):
            if token.text.isEmpty || !token.text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
                findings.mistake("google.accessTokenFile", "must be printable ASCII without spaces")
            }
            findings.warning("google.accessTokenFile", "is a fixed token: Google's own end after an hour")
        }
        findings.checkURL(baseURL, "google.baseURL")
    }
}

/// The parts of a configured URL that decide whether it may be used.
struct StoreBaseURL {
    let isEncrypted: Bool
    let host: Substring

    init?(_ text: String) {
        let rest: Substring
        if text.hasPrefix("https://") {
            isEncrypted = true
            rest = text.dropFirst(8)
        } else if text.hasPrefix("http://") {
            isEncrypted = false
            rest = text.dropFirst(7)
        } else {
            return nil
        }
        let authority = rest.prefix { $0 != "/" }
        // No "@", "?", "#", "%", "\" or white space anywhere: each has been used to make two parsers see two hosts.
        let isPlain = rest.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x2F, 0x3A, 0x5B, 0x5D, 0x5F, 0x7E: true
            default: false
            }
        }
        guard isPlain, let host = Self.host(of: authority), !host.isEmpty else { return nil }
        self.host = host
    }

    /// Whether the host is this machine by its very name; names that only resolve to it do not count.
    var isLoopback: Bool {
        if host == "localhost" || host == "[::1]" { return true }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
    }

    private static func host(of authority: Substring) -> Substring? {
        let port: Substring
        let host: Substring
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else { return nil }
            host = authority[...close]
            port = authority[authority.index(after: close)...]
        } else {
            host = authority.prefix { $0 != ":" }
            port = authority[host.endIndex...]
        }
        guard port.isEmpty || (port.first == ":" && UInt16(port.dropFirst()) != nil) else { return nil }
        return host
    }
}
