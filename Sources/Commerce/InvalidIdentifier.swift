/// A text that is not an identifier of the wanted kind.
///
/// Carries the rule that was broken, never the text: it may be a purchase token, or somebody's attempt at injection.
public struct InvalidIdentifier: Error, Equatable, CustomStringConvertible {
    /// What was expected, such as "player id".
    public let kindName: String
    /// Which rule the text breaks, such as "is longer than 128 bytes".
    public let reason: String

    /// The kind and the broken rule.
    public var description: String { "\(kindName) \(reason)" }
}
