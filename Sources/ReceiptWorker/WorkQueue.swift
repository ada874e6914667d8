/// The queues a worker serves: one for each store, so that one store's outage does not delay the other's receipts, and
/// one for what a store must be told after the credit, so that telling never delays verifying.
public enum WorkQueue: String, Sendable, Hashable, CaseIterable {
    /// Receipts of Apple's App Store.
    case apple
    /// Receipts of Google Play.
    case google
    /// Purchases to be consumed or acknowledged at Google.
    case googleDuty = "google-duty"
}
