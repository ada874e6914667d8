import Commerce
public import ServiceRuntime
public import StoreEmulator
public import Verification

extension VerificationConfiguration {
    /// An emulator in the place of both stores: its app, its keys, its root; both of Apple's environments are looked at,
    /// and no sandbox purchase is credited.
    @LoopActor
    public init(emulatedBy emulator: StoreEmulator) throws {
        var apple = AppleConfiguration(
            bundleIDs: ["com.mygame"],
            key: .init(
                keyID: "EMULATED01", issuerID: "11111111-2222-4333-8444-555555555555",
                privateKeyPEM: Secret(emulator.applePrivateKeyPEM)))
        apple.environments = [.production, .sandbox]
        apple.rootFingerprints = [emulator.rootFingerprint]
        apple.productionURL = emulator.appleURL(.production)
        apple.sandboxURL = emulator.appleURL(.sandbox)
        apple.receiptProductionURL = emulator.receiptURL(.production)
        apple.receiptSandboxURL = emulator.receiptURL(.sandbox)
        let account = try GoogleConfiguration.ServiceAccount(keyFile: Array(emulator.serviceAccountJSON.utf8))
        var google = GoogleConfiguration(
            packageNames: [try PackageName(validating: "com.mygame")], credentials: .serviceAccount(account))
        google.baseURL = emulator.googleURL
        self.init(apple: apple, google: google)
    }
}
