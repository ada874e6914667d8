import Glibc

/// One value, or one key, in the flat list of a document: a container comes before its children, a key before its value.
struct JSONNode {
    /// The integer; the bits of the real; 0 or 1; or where a string's text starts in the document.
    var payload: Int64
    /// Bytes of a string as written, without quotes; or the number of elements or members.
    var length: Int32
    /// Index after the last descendant.
    var endIndex: Int32
    var kind: JSONView.Kind
    /// Whether a string is written with escapes.
    var isEscaped = false

    var end: Int { Int(endIndex) }
}

/// A parsed document: its text, which strings are cut from when asked for, and its nodes.
final class JSONDocument {
    let nodes: [JSONNode]
    private let bytes: [UInt8]

    init(parsing bytes: [UInt8], depthMax: Int) throws(JSONError) {
        // A throwing closure loses the type of its error in `withUnsafeBufferPointer` of an array; a Result keeps it.
        let parsed = bytes.withUnsafeBufferPointer { buffer in
            Result { () throws(JSONError) in
                var parser = JSONParser(buffer, depthMax: depthMax)
                return try parser.parse()
            }
        }
        self.nodes = try parsed.get()
        self.bytes = bytes
    }

    /// The decoded UTF-8 of the string or key at `index`.
    func utf8(of index: Int) -> [UInt8] {
        let written = writtenBytes(of: nodes[index])
        return nodes[index].isEscaped ? JSONUnescape.decoded(written) : Array(written)
    }

    /// The text of the string or key at `index`.
    func text(of index: Int) -> String {
        let written = writtenBytes(of: nodes[index])
        guard !nodes[index].isEscaped else { return String(decoding: JSONUnescape.decoded(written), as: UTF8.self) }
        return String(decoding: written, as: UTF8.self)
    }

    private func writtenBytes(of node: JSONNode) -> ArraySlice<UInt8> {
        bytes[Int(node.payload)..<Int(node.payload) + Int(node.length)]
    }

    /// Index of the value of `key` in the object at `index`; nil when there is none, or no object.
    ///
    /// Keys are compared by their bytes: Swift's `==` of strings would take two spellings of "é" for one key.
    func value(of key: UnsafeBufferPointer<UInt8>, in index: Int) -> Int? {
        let object = nodes[index]
        guard object.kind == .object else { return nil }
        var child = index + 1
        for _ in 0..<object.length {
            if isKey(child, equalTo: key) { return child + 1 }
            child = nodes[child + 1].end
        }
        return nil
    }

    private func isKey(_ index: Int, equalTo key: UnsafeBufferPointer<UInt8>) -> Bool {
        let node = nodes[index]
        if node.isEscaped { return JSONUnescape.decoded(writtenBytes(of: node)).elementsEqual(key) }
        guard Int(node.length) == key.count, let start = key.baseAddress else {
            return node.length == 0 && key.isEmpty
        }
        return bytes.withUnsafeBytes { bytes in
            bytes.baseAddress.map { memcmp($0 + Int(node.payload), start, key.count) == 0 } ?? false
        }
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

/// Decodes the escapes of a string that the parser has found valid.
enum JSONUnescape {
    static func decoded(_ written: some Collection<UInt8>) -> [UInt8] {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(written.count)
        var rest = written.makeIterator()
        var highSurrogate: UInt32 = 0
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "\\") else {
                decoded.append(byte)
                continue
            }
            switch rest.next() ?? 0 {
            case UInt8(ascii: "n"): decoded.append(0x0a)
            case UInt8(ascii: "r"): decoded.append(0x0d)
            case UInt8(ascii: "t"): decoded.append(0x09)
            case UInt8(ascii: "b"): decoded.append(0x08)
            case UInt8(ascii: "f"): decoded.append(0x0c)
            case UInt8(ascii: "u"):
                var unit: UInt32 = 0
                for _ in 0..<4 { unit = unit << 4 | UInt32(hexValue(rest.next() ?? 0) ?? 0) }
                if unit & 0xfc00 == 0xd800 {
                    highSurrogate = unit
                    continue
                }
                if unit & 0xfc00 == 0xdc00 { unit = 0x10000 + (highSurrogate & 0x3ff) << 10 + unit & 0x3ff }
                if let scalar = Unicode.Scalar(unit) { decoded.append(contentsOf: Array(String(scalar).utf8)) }
            case let other: decoded.append(other)
            }
        }
        return decoded
    }

    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
