/// Why a JSON document was refused: where, and which rule, but never what it contained.
///
/// Documents here are receipts and store answers, and errors end in logs and in answers to clients. So the texts are
/// fixed sentences, and a path shows only keys.
public struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The broken rule as a sentence without a subject, for example "must be a string".
    public let reason: String
    /// Where in the document, for example `keys[2].id`; empty for the document itself and for syntax errors.
    public let path: String
    /// Line, counted from 1: of every syntax error; of an error about the shape where a person has a file to mend.
    public let line: Int?
    /// Column of a syntax error in characters, counted from 1.
    public let column: Int?

    /// Makes an error about the shape of a document.
    public init(reason: String, path: String = "", line: Int? = nil, column: Int? = nil) {
        self.reason = reason
        self.path = path
        self.line = line
        self.column = column
    }

    /// The place and the rule: `line 3, column 5: is not valid JSON`, `keys[2].id: must be a string` or
    /// `line 7: keys[2].id: must be a string`.
    public var description: String {
        if let line, let column { return "line \(line), column \(column): \(reason)" }
        return (line.map { "line \($0): " } ?? "") + (path.isEmpty ? "document" : path) + ": \(reason)"
    }
}

/// One step from a node to a child, kept so that the path of an error can be told.
enum JSONPlace {
    case member(String)
    case index(Int)

    /// Longest part of a key shown in a path: a hostile key must not become a long log line.
    static let keyBytesMax = 64

    /// Appends this step to `path`, showing only printable ASCII of a key.
    func append(to path: inout String) {
        switch self {
        case .index(let index):
            path += "[\(index)]"
        case .member(let key):
            if !path.isEmpty { path += "." }
            for byte in key.utf8.prefix(Self.keyBytesMax) {
                path.unicodeScalars.append(byte > 0x20 && byte < 0x7f ? Unicode.Scalar(byte) : "?")
            }
            if key.utf8.count > Self.keyBytesMax { path += "..." }
        }
    }
}
