/// A lazy view of one node of a parsed JSON document.
///
/// All JSON from outside (requests, queue entries, store answers, configuration) comes in through this type.
/// Foundation's decoder accepts duplicate keys and NUL and gives no position; here duplicate keys, NUL, invalid UTF-8,
/// numbers that do not fit, too deep nesting and trailing text are refused with line and column, and the accessors
/// name the path of a field with the wrong shape. A view copies nothing but the strings it is asked for: it is an index
/// into the list of nodes that one document object owns. Paths are only worked out for an error.
///
/// yajl reads the text, event by event: a tree of allocated nodes would cost ten times as much, and several documents
/// are parsed per receipt.
public struct JSONView {
    /// The kinds of JSON values; numbers are split the way they are written (`1` integer, `1.0` and `1e3` real).
    public enum Kind: String, Sendable {
        case object, array, string, integer, real, bool, null
    }

    private let document: JSONDocument
    private let index: Int

    private init(_ document: JSONDocument, _ index: Int) {
        self.document = document
        self.index = index
    }

    private var node: JSONNode { document.nodes[index] }

    /// Parses one complete document; any kind of value is allowed at the top.
    public static func parse(_ bytes: [UInt8], depthMax: Int = 32) throws(JSONError) -> JSONView {
        JSONView(try JSONDocument(parsing: bytes, depthMax: depthMax), 0)
    }

    /// Parses one complete document; any kind of value is allowed at the top.
    public static func parse(_ bytes: UnsafeRawBufferPointer, depthMax: Int = 32) throws(JSONError) -> JSONView {
        try parse(Array(bytes), depthMax: depthMax)
    }

    /// Parses one complete document; any kind of value is allowed at the top.
    public static func parse(_ text: String, depthMax: Int = 32) throws(JSONError) -> JSONView {
        try parse(Array(text.utf8), depthMax: depthMax)
    }

    /// What kind of value this is.
    public var kind: Kind { node.kind }

    /// True for the literal `null`.
    public var isNull: Bool { node.kind == .null }

    /// Number of elements or members; 0 for any other kind.
    public var count: Int {
        switch node.kind {
        case .object, .array: Int(node.length)
        default: 0
        }
    }

    // MARK: Children

    /// The member `key`, `null` included; nil when it is absent or this is not an object.
    public subscript(_ key: String) -> JSONView? {
        document.value(of: key.utf8Span.span, in: index).map { JSONView(document, $0) }
    }

    /// The member `key`, `null` included; throws when it is absent or this is not an object.
    public func required(_ key: String) throws(JSONError) -> JSONView {
        if let member = self[key] { return member }
        try object()
        var path = path
        JSONPlace.member(key).append(to: &path)
        throw JSONError(reason: "is missing", path: path)
    }

    /// The member `key` unless it is absent or `null`; throws when this is not an object.
    public func optional(_ key: String) throws(JSONError) -> JSONView? {
        guard let member = self[key] else {
            try object()
            return nil
        }
        return member.isNull ? nil : member
    }

    /// The elements of an array, in order.
    public func elements() throws(JSONError) -> [JSONView] {
        guard kind == .array else { throw error("must be an array") }
        var elements: [JSONView] = []
        elements.reserveCapacity(count)
        var child = index + 1
        for _ in 0..<count {
            elements.append(JSONView(document, child))
            child = document.nodes[child].end
        }
        return elements
    }

    /// The members of an object, in the order of the document.
    public func members() throws(JSONError) -> [(key: String, value: JSONView)] {
        try object()
        var members: [(key: String, value: JSONView)] = []
        members.reserveCapacity(count)
        forEachMember { key, value in
            members.append((document.text(of: key), JSONView(document, value)))
        }
        return members
    }

    /// Keys of this object that are not in `known`, in the order of the document; empty when it is not an object.
    public func unknownKeys(besides known: some Sequence<String>) -> [String] {
        var unknown: [String] = []
        forEachMember { key, _ in
            guard !known.contains(where: { document.isKey(key, equalTo: $0.utf8Span.span) }) else { return }
            unknown.append(document.text(of: key))
        }
        return unknown
    }

    /// The line on which the member `key` begins, counted from 1; nil when it is absent or its name is written with
    /// escapes.
    ///
    /// Counts the lines before it: for messages, not for the hot path.
    public func line(of key: String) -> Int? {
        document.value(of: key.utf8Span.span, in: index).flatMap { document.line(ofKey: $0 - 1) }
    }

    /// Calls `body` with the indices of each member's key and value; never, when this is not an object.
    private func forEachMember(_ body: (_ key: Int, _ value: Int) -> Void) {
        guard kind == .object else { return }
        var key = index + 1
        for _ in 0..<count {
            body(key, key + 1)
            key = document.nodes[key + 1].end
        }
    }

    // MARK: Values

    /// Throws unless this is an object; returns it for chaining.
    @discardableResult
    public func object() throws(JSONError) -> JSONView {
        guard kind == .object else { throw error("must be an object") }
        return self
    }

    /// The text of a string of at most `bytesMax` bytes of UTF-8.
    public func string(maxBytes bytesMax: Int = .max) throws(JSONError) -> String {
        guard kind == .string else { throw error("must be a string") }
        let text = document.text(of: index)
        try check(text.utf8.count, bytesMax)
        return text
    }

    /// The UTF-8 of a string of at most `bytesMax` bytes: cheaper than `string` for what is only passed on.
    public func utf8(maxBytes bytesMax: Int = .max) throws(JSONError) -> [UInt8] {
        guard kind == .string else { throw error("must be a string") }
        let bytes = document.utf8(of: index)
        try check(bytes.count, bytesMax)
        return bytes
    }

    /// An integer in `range`; a number written as `1.0` or `1e3` is refused.
    public func int64(in range: ClosedRange<Int64> = .min ... .max) throws(JSONError) -> Int64 {
        guard kind == .integer else { throw error("must be an integer") }
        let value = node.payload
        guard range.contains(value) else {
            throw error("must be an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// A number, written as an integer or a real.
    public func double() throws(JSONError) -> Double {
        switch kind {
        case .integer: Double(node.payload)
        case .real: Double(bitPattern: UInt64(bitPattern: node.payload))
        default: throw error("must be a number")
        }
    }

    /// `true` or `false`.
    public func bool() throws(JSONError) -> Bool {
        guard kind == .bool else { throw error("must be true or false") }
        return node.payload != 0
    }

    private func check(_ bytes: Int, _ bytesMax: Int) throws(JSONError) {
        guard bytes <= bytesMax else { throw error("must be at most \(bytesMax) bytes long") }
    }

    // MARK: Errors

    /// An error with `reason` at this node's path; `reason` must not quote the document.
    public func error(_ reason: String) -> JSONError {
        JSONError(reason: reason, path: path)
    }

    /// Where this node is in the document, for example `keys[2].id`; empty for the document itself.
    ///
    /// Walks down from the root, so that views need not carry their ancestors: for errors, not for the hot path.
    public var path: String {
        var path = ""
        for step in document.steps(to: index) { step.append(to: &path) }
        return path
    }
}

/// A view is for the code that parsed the document; what leaves it is values.
@available(*, unavailable)
extension JSONView: Sendable {}
