import Glibc

/// One value, or one key, in the flat list of a document: a container comes before its children, a key before its value.
struct JSONNode {
    /// The integer; the bits of the real; 0 or 1; or where a string's text starts.
    var payload: Int64
    /// Bytes of a string; or the number of elements or members.
    var length: Int32
    /// Index after the last descendant.
    var endIndex: Int32
    var kind: JSONView.Kind
    /// Whether a string is written with escapes: then its text is with the decoded ones, else in the document.
    var isEscaped = false

    var end: Int { Int(endIndex) }
}

/// A parsed document: its text and the decoded strings, which texts are cut from when asked for, and its nodes.
final class JSONDocument {
    let nodes: [JSONNode]
    private let bytes: [UInt8]
    private let unescaped: [UInt8]

    init(parsing bytes: [UInt8], depthMax: Int) throws(JSONError) {
        // A throwing closure loses the type of its error in `withUnsafeBufferPointer` of an array; a Result keeps it.
        let parsed = bytes.withUnsafeBufferPointer { buffer in
            Result { () throws(JSONError) in
                var parser = JSONParser(buffer, depthMax: depthMax)
                try parser.parse()
                return (parser.nodes, parser.unescaped)
            }
        }
        (nodes, unescaped) = try parsed.get()
        self.bytes = bytes
    }

    /// The decoded UTF-8 of the string or key at `index`.
    func utf8(of index: Int) -> [UInt8] { Array(decoded(nodes[index])) }

    /// The text of the string or key at `index`.
    func text(of index: Int) -> String { String(decoding: decoded(nodes[index]), as: UTF8.self) }

    private func decoded(_ node: JSONNode) -> ArraySlice<UInt8> {
        let place = Int(node.payload)..<Int(node.payload) + Int(node.length)
        return node.isEscaped ? unescaped[place] : bytes[place]
    }

    /// Index of the value of `key` in the object at `index`; nil when there is none, or no object.
    ///
    /// Keys are compared by their bytes: Swift's `==` of strings would take two spellings of "é" for one key.
    func value(of key: Span<UInt8>, in index: Int) -> Int? {
        let object = nodes[index]
        guard object.kind == .object else { return nil }
        var child = index + 1
        for _ in 0..<object.length {
            if isKey(child, equalTo: key) { return child + 1 }
            child = nodes[child + 1].end
        }
        return nil
    }

    /// Whether the key at `index` is `key`.
    func isKey(_ index: Int, equalTo key: Span<UInt8>) -> Bool {
        let node = nodes[index]
        guard Int(node.length) == key.count else { return false }
        return (node.isEscaped ? unescaped : bytes).withUnsafeBytes { text in
            key.withUnsafeBytes { key in
                guard let start = text.baseAddress, let other = key.baseAddress else { return key.isEmpty }
                return memcmp(start + Int(node.payload), other, key.count) == 0
            }
        }
    }

    /// The line of the key at `index`, counted from 1; nil when it has escapes, since then its place is not known.
    func line(ofKey index: Int) -> Int? {
        let node = nodes[index]
        return node.isEscaped ? nil : 1 + bytes[..<Int(node.payload)].count { $0 == UInt8(ascii: "\n") }
    }

    /// The way from the root to the node at `target`.
    func steps(to target: Int) -> [JSONPlace] {
        var steps: [JSONPlace] = []
        var container = 0
        while container != target {
            let isObject = nodes[container].kind == .object
            var child = container + 1
            var position = 0
            while true {
                let value = isObject ? child + 1 : child
                if target < nodes[value].end {
                    steps.append(isObject ? .member(text(of: child)) : .index(position))
                    container = value
                    break
                }
                child = nodes[value].end
                position += 1
            }
        }
        return steps
    }
}
