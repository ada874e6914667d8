public import ServiceRuntime

/// Everything that is wrong with a catalogue file.
public struct CatalogueError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The mistakes in the order of the file; never empty.
    public let mistakes: [JSONError]

    init(_ mistakes: [JSONError]) { self.mistakes = mistakes }

    /// One mistake per line.
    public var description: String { mistakes.map(\.description).joined(separator: "\n") }
}
