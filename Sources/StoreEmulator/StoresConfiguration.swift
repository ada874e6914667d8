import Glibc
import ServiceRuntime
import Signing

/// What Teller has to be told in order to take this emulator for the stores.
extension StoreEmulator {
    /// SHA-256 of the emulated root certificate, lower-case hexadecimal.
    public var rootFingerprint: String { keys.chain.root.fingerprint }

    /// The App Store Connect key (`.p8`), PEM.
    public var applePrivateKeyPEM: String { keys.apple.pem }

    /// The service account's key, PEM.
    public var googlePrivateKeyPEM: String { keys.google.pem }

    /// The service account's key file, JSON.
    public var serviceAccountJSON: String {
        var json = JSONWriter(capacity: 4096)
        json.object { json in
            json.member("type", "service_account")
            json.member("client_email", configuration.googleAccount)
            json.member("private_key_id", "00aa11bb22cc")
            json.member("private_key", googlePrivateKeyPEM)
            json.member("token_uri", tokenURL)
        }
        return json.text
    }

    /// The `apple` and `google` parts of a Teller configuration; the key files are in `directory`.
    public func storesConfiguration(keysIn directory: String = "") -> String {
        let prefix = directory.isEmpty ? "" : directory + "/"
        var json = JSONWriter(capacity: 1024)
        json.object { json in
            json.member(
                "apple",
                object: { json in
                    json.member("bundleIds", array: { $0.element(configuration.bundleID) })
                    json.member(
                        "environments",
                        array: { json in for world in EmulatedEnvironment.allCases { json.element(world.rawValue) } })
                    json.member("verify", "online")
                    json.member("issuerId", configuration.appleIssuerID)
                    json.member("keyId", configuration.appleKeyID)
                    json.member("privateKeyFile", prefix + Self.appleKeyFile)
                    json.member("rootFingerprints", array: { $0.element(rootFingerprint) })
                    json.member("productionURL", appleURL(.production))
                    json.member("sandboxURL", appleURL(.sandbox))
                    json.member("receiptProductionURL", receiptURL(.production))
                    json.member("receiptSandboxURL", receiptURL(.sandbox))
                })
            json.member(
                "google",
                object: { json in
                    json.member("packageNames", array: { $0.element(configuration.packageName) })
                    json.member("serviceAccountFile", prefix + Self.googleKeyFile)
                    json.member("consume", "server")
                    json.member("baseURL", googleURL)
                    json.member("tokenURL", tokenURL)
                })
        }
        return json.text
    }

    private static let appleKeyFile = "apple.p8"
    private static let googleKeyFile = "google.json"

    /// Writes both keys (readable by the owner only) and, last, `stores.json` into a directory, which is made if need be.
    ///
    /// Whoever waits for `stores.json` may rely on it being complete: it is renamed into place.
    ///
    /// - Throws: ``EmulatorError``.
    public func writeStores(into directory: String) throws {
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else {
            throw EmulatorError.failed("\(directory): \(String(cString: strerror(errno)))")
        }
        try Self.write(applePrivateKeyPEM, to: "\(directory)/\(Self.appleKeyFile)")
        try Self.write(serviceAccountJSON, to: "\(directory)/\(Self.googleKeyFile)")
        try Self.write(storesConfiguration(keysIn: directory), to: "\(directory)/stores.json")
    }

    private static func write(_ text: String, to path: String) throws(EmulatorError) {
        let temporary = path + ".new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("\(path): \(String(cString: strerror(errno)))") }
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { break }
            written += max(0, count)
        }
        close(descriptor)
        guard written == bytes.count, rename(temporary, path) == 0 else {
            throw .failed("\(path): \(String(cString: strerror(errno)))")
        }
    }
}
