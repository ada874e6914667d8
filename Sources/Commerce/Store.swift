/// One of the two shops that sell our products.
///
/// Never used in the sense of "persistence".
public enum Store: String, Sendable, Hashable, CaseIterable {
    /// Apple's App Store.
    case appStore = "apple"
    /// Google Play.
    case googlePlay = "google"

    /// The store of a client's platform: `ios` or `android`; nil for anything else.
    public init?(platform: String) {
        switch platform {
        case "ios": self = .appStore
        case "android": self = .googlePlay
        default: return nil
        }
    }

    /// What clients and the catalogue call it: `ios` or `android`.
    public var platform: String {
        switch self {
        case .appStore: "ios"
        case .googlePlay: "android"
        }
    }
}
