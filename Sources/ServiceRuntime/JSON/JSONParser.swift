import CYajl
import Glibc

/// Lets yajl read a document, and lists the nodes it reports.
///
/// The grammar is yajl's, well-formed UTF-8 is the standard library's. Ours is what yajl lets pass: duplicate keys, too
/// deep nesting, numbers that do not fit, NUL and halves of a character in the escapes of a string, vertical tab and
/// form feed as space, and the beginning of a string after the end of the document. An error is placed on the byte that
/// is wrong; yajl's offset may be the end of its token.
struct JSONParser {
    /// Members of an object up to which a new key is compared with each before it; above, a hash set is kept.
    private static let keysComparedMax = 24

    private struct Container {
        var index: Int
        /// Keys of a large object.
        var keys: Set<[UInt8]> = []
    }

    private let text: UnsafeBufferPointer<UInt8>
    private let depthMax: Int
    private var handle: OpaquePointer?
    /// What was given to yajl before the chunk that it is reading.
    private var chunkOffset = 0
    /// Where the token of the last event ends; up to the next one come only space, commas and colons.
    private var eventEnd = 0
    private var open: [Container] = []
    private var failure: JSONError?

    private(set) var nodes: [JSONNode] = []
    /// The decoded text of all strings with escapes.
    private(set) var unescaped: [UInt8] = []

    init(_ text: UnsafeBufferPointer<UInt8>, depthMax: Int) {
        self.text = text
        self.depthMax = depthMax
        nodes.reserveCapacity(min(32, text.count / 8 + 1))
        open.reserveCapacity(8)
    }

    /// Fills `nodes` and `unescaped`.
    mutating func parse() throws(JSONError) {
        guard !text.isEmpty else { throw error("is empty", at: 0) }
        guard text.count < Int(Int32.max) else { throw error("is too large", at: 0) }
        if let bad = firstInvalidUTF8() { throw error("is not valid UTF-8", at: bad) }
        let status = withUnsafeMutablePointer(to: &self) { parser in
            withUnsafePointer(to: Self.callbacks) { callbacks in
                guard let handle = yajl_alloc(callbacks, nil, parser) else {
                    parser.pointee.fail("does not fit in memory", at: 0)
                    return yajl_status_error
                }
                parser.pointee.handle = handle
                let text = parser.pointee.text
                let status = yajl_parse(handle, text.baseAddress, text.count)
                guard status == yajl_status_ok else { return status }
                // A number may end with the text: only now does yajl report it.
                parser.pointee.chunkOffset = text.count
                return yajl_complete_parse(handle)
            }
        }
        defer { handle.map { yajl_free($0) } }
        if let failure { throw failure }
        guard status == yajl_status_ok else { throw syntaxError() }
        // yajl does not see a string after the end of the document when it never ends itself.
        let rest = tokenStart(limit: 0)
        guard rest == text.count else { throw error("has text after its end", at: rest) }
        for space: Int32 in [0x0b, 0x0c] {
            guard let start = text.baseAddress, let found = memchr(start, space, text.count) else { continue }
            throw error(Self.invalid, at: UnsafeRawPointer(found) - UnsafeRawPointer(start))
        }
    }

    /// Swift's check: yajl's lets overlong forms and surrogates pass.
    private func firstInvalidUTF8() -> Int? {
        do {
            _ = try UTF8Span(validating: text.span)
            return nil
        } catch {
            return error.byteOffsets.lowerBound
        }
    }

    // MARK: Events

    private static var callbacks: yajl_callbacks {
        yajl_callbacks(
            yajl_null: { JSONParser.on($0) { $0.value(.null, 0) } },
            yajl_boolean: { context, isTrue in JSONParser.on(context) { $0.value(.bool, isTrue == 0 ? 0 : 1) } },
            yajl_integer: nil,
            yajl_double: nil,
            yajl_number: { context, start, length in
                JSONParser.on(context) { $0.number(UnsafeRawBufferPointer(start: start, count: length)) }
            },
            yajl_string: { context, start, length in
                JSONParser.on(context) { $0.string(UnsafeBufferPointer(start: start, count: length)) }
            },
            yajl_start_map: { JSONParser.on($0) { $0.begin(.object) } },
            yajl_map_key: { context, start, length in
                JSONParser.on(context) { $0.key(UnsafeBufferPointer(start: start, count: length)) }
            },
            yajl_end_map: { JSONParser.on($0) { $0.end() } },
            yajl_start_array: { JSONParser.on($0) { $0.begin(.array) } },
            yajl_end_array: { JSONParser.on($0) { $0.end() } })
    }

    /// Hands an event to the parser that `context` points to; 0 stops yajl.
    private static func on(_ context: UnsafeMutableRawPointer?, _ event: (inout JSONParser) -> Void) -> Int32 {
        guard let parser = context?.assumingMemoryBound(to: JSONParser.self) else { return 0 }
        event(&parser.pointee)
        parser.pointee.eventEnd = parser.pointee.consumed
        return parser.pointee.failure == nil ? 1 : 0
    }

    private mutating func value(_ kind: JSONView.Kind, _ payload: Int64) {
        countElement()
        append(kind, payload)
    }

    private mutating func begin(_ kind: JSONView.Kind) {
        guard open.count < depthMax else { return fail("is nested deeper than \(depthMax) levels", at: tokenStart()) }
        countElement()
        open.append(Container(index: nodes.count))
        append(kind, 0)
    }

    private mutating func end() {
        guard let container = open.popLast() else { return }
        nodes[container.index].endIndex = Int32(truncatingIfNeeded: nodes.count)
    }

    private mutating func number(_ written: UnsafeRawBufferPointer) {
        // yajl keeps a number at the very end of the text in a buffer of its own: it must be read now.
        let isReal = written.contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
        if !isReal, let integer = Self.integer(written) {
            value(.integer, integer)
        } else if isReal, let real = Double(String(decoding: written, as: UTF8.self)), real.isFinite {
            value(.real, Int64(bitPattern: real.bitPattern))
        } else {
            fail("has a number that is out of range", at: tokenStart())
        }
    }

    /// The value of an optional minus and digits, as yajl has checked; nil when it does not fit.
    ///
    /// Without the detour over a text: a store's answer is numbers for the most part.
    private static func integer(_ written: UnsafeRawBufferPointer) -> Int64? {
        let isNegative = written.first == UInt8(ascii: "-")
        var value: Int64 = 0
        for byte in written.dropFirst(isNegative ? 1 : 0) {
            let digit = Int64(byte &- UInt8(ascii: "0"))
            let (shifted, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let (sum, isOver) =
                isNegative ? shifted.subtractingReportingOverflow(digit) : shifted.addingReportingOverflow(digit)
            guard !isTooLarge, !isOver else { return nil }
            value = sum
        }
        return value
    }

    private mutating func string(_ decoded: UnsafeBufferPointer<UInt8>) {
        countElement()
        append(decoded)
    }

    private mutating func key(_ decoded: UnsafeBufferPointer<UInt8>) {
        // The index only: beside a copy of the container, each insertion into its keys would copy them all.
        guard let object = open.last?.index else { return }
        let key = nodes.count
        append(decoded)
        guard isNew(key, in: object) else { return fail("has a duplicate key", at: tokenStart()) }
        nodes[object].length += 1
    }

    // MARK: Nodes

    private mutating func countElement() {
        // The index only: a copy of the container would also take hold of its keys.
        guard let container = open.last?.index, nodes[container].kind == .array else { return }
        nodes[container].length += 1
    }

    private mutating func append(_ kind: JSONView.Kind, _ payload: Int64, length: Int = 0, isEscaped: Bool = false) {
        let end = Int32(truncatingIfNeeded: nodes.count + 1)
        nodes.append(
            JSONNode(
                payload: payload, length: Int32(truncatingIfNeeded: length), endIndex: end, kind: kind,
                isEscaped: isEscaped))
    }

    /// Appends a string: by its place in the text, or, as yajl's decoded text is gone after the event, by a copy.
    private mutating func append(_ decoded: UnsafeBufferPointer<UInt8>) {
        guard let start = decoded.baseAddress, let base = text.baseAddress else { return }
        if start >= base, start < base + text.count {
            return append(.string, Int64(start - base), length: decoded.count)
        }
        checkEscapes()
        append(.string, Int64(unescaped.count), length: decoded.count, isEscaped: true)
        unescaped.append(contentsOf: decoded)
    }

    /// Refuses in the string just read what yajl decodes to NUL, to "?" or to no character at all.
    private mutating func checkEscapes() {
        var position = tokenStart() + 1
        while position < consumed - 1 {
            guard let unit = codeUnit(at: position) else {
                position += text[position] == UInt8(ascii: "\\") ? 2 : 1
                continue
            }
            guard unit != 0 else { return fail("has a NUL character in a string", at: position) }
            if unit & 0xf800 == 0xd800 {
                // Half of a character outside the basic plane is no text: it must come as a pair, high half first.
                guard unit & 0xfc00 == 0xd800, let low = codeUnit(at: position + 6), low & 0xfc00 == 0xdc00 else {
                    return fail(Self.invalid, at: position)
                }
                position += 6
            }
            position += 6
        }
    }

    /// The number in a `\u` escape at `position`, in a string that yajl has accepted; nil when it is something else.
    private func codeUnit(at position: Int) -> UInt16? {
        guard text[position] == UInt8(ascii: "\\"), text[position + 1] == UInt8(ascii: "u") else { return nil }
        return UInt16(String(decoding: text[position + 2..<position + 6], as: UTF8.self), radix: 16)
    }

    // MARK: Keys

    /// Whether the key at `key` is none of those before it in the object at `object`.
    private mutating func isNew(_ key: Int, in object: Int) -> Bool {
        let keysBefore = Int(nodes[object].length)
        if keysBefore >= Self.keysComparedMax {
            // A hostile object with many keys must not cost their square; Swift's hashing is seeded per process.
            let last = open.count - 1
            if keysBefore == Self.keysComparedMax {
                var other = object + 1
                for _ in 0..<keysBefore {
                    open[last].keys.insert(decoded(other) { Array($0) })
                    other = nodes[other + 1].end
                }
            }
            return open[last].keys.insert(decoded(key) { Array($0) }).inserted
        }
        var other = object + 1
        for _ in 0..<keysBefore {
            if isEqual(other, key) { return false }
            other = nodes[other + 1].end
        }
        return true
    }

    private func isEqual(_ left: Int, _ right: Int) -> Bool {
        guard nodes[left].length == nodes[right].length else { return false }
        return decoded(left) { left in
            decoded(right) { right in left.elementsEqual(right) }
        }
    }

    private func decoded<Value>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Value) -> Value {
        let node = nodes[index]
        let place = Int(node.payload)..<Int(node.payload) + Int(node.length)
        guard node.isEscaped else { return body(UnsafeBufferPointer(rebasing: text[place])) }
        return unescaped.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[place])) }
    }

    // MARK: Errors

    private static let invalid = "is not valid JSON"

    /// Bytes of the text that yajl has read; within an event, up to the end of its token.
    private var consumed: Int { chunkOffset + yajl_get_bytes_consumed(handle) }

    /// Where the token after the last event starts; commas and colons from `limit` on are tokens themselves.
    private func tokenStart(limit: Int = .max) -> Int {
        var position = eventEnd
        while position < text.count {
            switch text[position] {
            case 0x20, 0x0a, 0x0d, 0x09: position += 1
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                guard position < limit else { return position }
                position += 1
            default: return position
            }
        }
        return position
    }

    private func syntaxError() -> JSONError {
        // A wrong token has been read to its end; a wrong byte inside a token is where yajl stopped.
        let isInToken = isLexical
        let start = tokenStart(limit: isInToken ? .max : consumed - 1)
        if open.isEmpty, !nodes.isEmpty { return error("has text after its end", at: start) }
        guard chunkOffset == 0 else { return error("ends too early", at: text.count) }
        let beginsToken = start < text.count && "\"-0123456789tfn".utf8.contains(text[start])
        return error(Self.invalid, at: isInToken && beginsToken ? consumed : start)
    }

    /// Whether yajl stopped inside a token.
    ///
    /// Only its message tells, which is then dropped: no text but ours goes into errors.
    private var isLexical: Bool {
        guard let message = yajl_get_error(handle, 0, nil, 0) else { return false }
        defer { yajl_free_error(handle, message) }
        return String(cString: message).hasPrefix("lexical")
    }

    private mutating func fail(_ reason: String, at offset: Int) {
        failure = failure ?? error(reason, at: offset)
    }

    /// An error with line and column (in characters), both counted from 1, of the byte at `offset`.
    private func error(_ reason: String, at offset: Int) -> JSONError {
        var line = 1
        var column = 1
        for byte in text.prefix(offset) {
            if byte == 0x0a {
                line += 1
                column = 1
            } else if byte & 0xc0 != 0x80 {
                column += 1
            }
        }
        return JSONError(reason: reason, line: line, column: column)
    }
}
