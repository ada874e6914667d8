/// Real money or not.
///
/// Checked against the configuration, never guessed.
///
/// The text is Apple's. Google has no separate host; its test purchases count as sandbox.
public enum StoreEnvironment: String, Sendable, Hashable, CaseIterable {
    /// Real money.
    case production = "Production"
    /// Test money.
    case sandbox = "Sandbox"
}
