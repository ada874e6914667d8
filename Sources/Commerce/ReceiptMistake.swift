/// Why a text is no receipt.
///
/// Says what is wrong with it and never quotes it.
public struct ReceiptMistake: Error, Equatable, Sendable, CustomStringConvertible {
    /// What is wrong, to be read after the field's name, such as "is empty".
    public let reason: String

    init(_ reason: String) { self.reason = reason }

    /// The reason.
    public var description: String { reason }
}
