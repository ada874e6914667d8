import CJansson

/// A lazy view of one node of a parsed JSON document.
///
/// All JSON from outside (requests, queue entries, store answers, configuration) comes in through this type.
/// Foundation's decoder accepts duplicate keys and NUL and gives no position; here duplicate keys, NUL, invalid UTF-8,
/// numbers that do not fit, too deep nesting and trailing text are refused with line and column, and the accessors
/// name the path of a field with the wrong shape. A view copies nothing but the strings it is asked for: it points
/// into jansson's tree, which one owner object frees with the last view. Paths are only worked out for an error.
public struct JSONView {
    /// The kinds of JSON values; numbers are split the way they are written (`1` integer, `1.0` and `1e3` real).
    public enum Kind: String, Sendable {
        case object, array, string, integer, real, bool, null
    }

    private let document: JSONDocument
    private let node: UnsafeMutablePointer<json_t>
    // The container of `node`: jansson shares one `true`, `false` and `null`, so a node alone does not tell its place.
    private let container: UnsafeMutablePointer<json_t>?
    private let place: JSONPlace

    private init(
        _ document: JSONDocument, _ node: UnsafeMutablePointer<json_t>, in container: UnsafeMutablePointer<json_t>?,
        at place: JSONPlace
    ) {
        self.document = document
        self.node = node
        self.container = container
        self.place = place
    }

    /// Parses one complete document; any kind of value is allowed at the top.
    public static func parse(_ bytes: UnsafeRawBufferPointer, depthMax: Int = 32) throws(JSONError) -> JSONView {
        let document = try JSONDocument(parsing: bytes, depthMax: depthMax)
        return JSONView(document, document.root, in: nil, at: .document)
    }

    /// Parses one complete document; any kind of value is allowed at the top.
    public static func parse(_ bytes: [UInt8], depthMax: Int = 32) throws(JSONError) -> JSONView {
        let result = bytes.withUnsafeBytes { buffer in
            Result { () throws(JSONError) in try parse(buffer, depthMax: depthMax) }
        }
        return try result.get()
    }

    /// Parses one complete document; any kind of value is allowed at the top.
    public static func parse(_ text: String, depthMax: Int = 32) throws(JSONError) -> JSONView {
        var text = text
        let result = text.withUTF8 { buffer in
            Result { () throws(JSONError) in try parse(UnsafeRawBufferPointer(buffer), depthMax: depthMax) }
        }
        return try result.get()
    }

    /// What kind of value this is.
    public var kind: Kind {
        switch type {
        case JSON_OBJECT: .object
        case JSON_ARRAY: .array
        case JSON_STRING: .string
        case JSON_INTEGER: .integer
        case JSON_REAL: .real
        case JSON_TRUE, JSON_FALSE: .bool
        default: .null
        }
    }

    /// True for the literal `null`.
    public var isNull: Bool { type == JSON_NULL }

    /// Number of elements or members; 0 for any other kind.
    public var count: Int {
        withNode { teller_json_type($0) == JSON_ARRAY ? json_array_size($0) : json_object_size($0) }
    }

    // MARK: Children

    /// The member `key`, `null` included; nil when it is absent or this is not an object.
    public subscript(_ key: String) -> JSONView? {
        var text = key
        let child = withNode { node in
            text.withUTF8 { utf8 in
                utf8.withMemoryRebound(to: CChar.self) { json_object_getn(node, $0.baseAddress, $0.count) }
            }
        }
        guard let child else { return nil }
        return JSONView(document, child, in: node, at: .member(key))
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
        let (document, node) = (document, node)
        return withExtendedLifetime(document) {
            (0..<json_array_size(node)).compactMap { index in
                json_array_get(node, index).map { JSONView(document, $0, in: node, at: .index(index)) }
            }
        }
    }

    /// The members of an object, in the order of the document.
    public func members() throws(JSONError) -> [(key: String, value: JSONView)] {
        try object()
        var members: [(key: String, value: JSONView)] = []
        members.reserveCapacity(count)
        forEachMember { key, value in
            members.append((key, JSONView(document, value, in: node, at: .member(key))))
        }
        return members
    }

    /// Keys of this object that are not in `known`, in the order of the document; empty when it is not an object.
    public func unknownKeys(besides known: Set<String>) -> [String] {
        var unknown: [String] = []
        forEachMember { key, _ in
            if !known.contains(key) { unknown.append(key) }
        }
        return unknown
    }

    private func forEachMember(_ body: (String, UnsafeMutablePointer<json_t>) -> Void) {
        withNode { node in
            var iterator = json_object_iter(node)
            while let current = iterator {
                if let key = json_object_iter_key(current), let value = json_object_iter_value(current) {
                    body(Self.text(key, bytes: json_object_iter_key_len(current)), value)
                }
                iterator = json_object_iter_next(node, current)
            }
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
        try checkString(bytesMax)
        return withNode { Self.text(json_string_value($0), bytes: json_string_length($0)) }
    }

    /// The UTF-8 of a string of at most `bytesMax` bytes: cheaper than `string` for what is only passed on.
    public func utf8(maxBytes bytesMax: Int = .max) throws(JSONError) -> [UInt8] {
        try checkString(bytesMax)
        return withNode {
            Array(UnsafeRawBufferPointer(start: json_string_value($0), count: json_string_length($0)))
        }
    }

    /// An integer in `range`; a number written as `1.0` or `1e3` is refused.
    public func int64(in range: ClosedRange<Int64> = .min ... .max) throws(JSONError) -> Int64 {
        guard kind == .integer else { throw error("must be an integer") }
        let value = Int64(withNode { json_integer_value($0) })
        guard range.contains(value) else {
            throw error("must be an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// A number, written as an integer or a real.
    public func double() throws(JSONError) -> Double {
        switch kind {
        case .integer, .real: withNode { json_number_value($0) }
        default: throw error("must be a number")
        }
    }

    /// `true` or `false`.
    public func bool() throws(JSONError) -> Bool {
        guard kind == .bool else { throw error("must be true or false") }
        return type == JSON_TRUE
    }

    private func checkString(_ bytesMax: Int) throws(JSONError) {
        guard kind == .string else { throw error("must be a string") }
        guard withNode({ json_string_length($0) }) <= bytesMax else {
            throw error("must be at most \(bytesMax) bytes long")
        }
    }

    // MARK: Errors

    /// An error with `reason` at this node's path; `reason` must not quote the document.
    public func error(_ reason: String) -> JSONError {
        JSONError(reason: reason, path: path)
    }

    /// Where this node is in the document, for example `keys[2].id`; empty for the document itself.
    ///
    /// Searches the tree, so that views need not carry their ancestors: for errors, not for the hot path.
    public var path: String {
        var path = ""
        if let container {
            for step in document.steps(to: container) { step.append(to: &path) }
        }
        place.append(to: &path)
        return path
    }

    // MARK: jansson

    private var type: json_type { withNode { teller_json_type($0) } }

    /// Keeps the tree alive while `body` looks at it: a bare pointer does not.
    private func withNode<Answer>(_ body: (UnsafeMutablePointer<json_t>) -> Answer) -> Answer {
        withExtendedLifetime(document) { body(node) }
    }

    fileprivate static func text(_ start: UnsafePointer<CChar>?, bytes: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : bytes), as: UTF8.self)
    }
}

/// A view is tied to a tree whose reference counts and lookups are made for one thread at a time.
@available(*, unavailable)
extension JSONView: Sendable {}

// MARK: - Owner of the tree

/// Owns one reference to a jansson tree.
private final class JSONDocument {
    let root: UnsafeMutablePointer<json_t>

    init(parsing bytes: UnsafeRawBufferPointer, depthMax: Int) throws(JSONError) {
        guard let start = bytes.baseAddress, !bytes.isEmpty else {
            throw JSONError(reason: "is empty", line: 1, column: 1)
        }
        try JSONSyntax.checkDepth(bytes, depthMax: depthMax)
        var failure = json_error_t()
        let flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY
        let tree = json_loadb(start.assumingMemoryBound(to: CChar.self), bytes.count, Int(flags), &failure)
        guard let tree else { throw JSONSyntax.error(for: failure) }
        root = tree
    }

    deinit { json_decref(root) }

    /// The way from the root to `target`, found by identity; empty for the root.
    func steps(to target: UnsafeMutablePointer<json_t>) -> [JSONPlace] {
        var steps: [JSONPlace] = []
        _ = find(target, under: root, &steps)
        return steps
    }

    private func find(
        _ target: UnsafeMutablePointer<json_t>, under node: UnsafeMutablePointer<json_t>, _ steps: inout [JSONPlace]
    ) -> Bool {
        if node == target { return true }
        if teller_json_type(node) == JSON_ARRAY {
            for index in 0..<json_array_size(node) {
                guard let child = json_array_get(node, index) else { continue }
                steps.append(.index(index))
                if find(target, under: child, &steps) { return true }
                steps.removeLast()
            }
            return false
        }
        var iterator = json_object_iter(node)
        while let current = iterator {
            if let child = json_object_iter_value(current) {
                let key = JSONView.text(json_object_iter_key(current), bytes: json_object_iter_key_len(current))
                steps.append(.member(key))
                if find(target, under: child, &steps) { return true }
                steps.removeLast()
            }
            iterator = json_object_iter_next(node, current)
        }
        return false
    }
}
