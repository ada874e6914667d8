import Glibc

/// Checks a document against RFC 8259, and more strictly, and lists its nodes.
struct JSONParser {
    /// Members of an object up to which a new key is compared with each before it; above, a hash set is kept.
    private static let keysComparedMax = 24

    private let text: UnsafeBufferPointer<UInt8>
    private let depthMax: Int
    private var position = 0
    private var depth = 0
    private var nodes: [JSONNode] = []

    init(_ text: UnsafeBufferPointer<UInt8>, depthMax: Int) {
        // One level is a few hundred bytes of stack.
        precondition(depthMax <= 1000, "the parser recurses once per level")
        self.text = text
        self.depthMax = depthMax
        nodes.reserveCapacity(min(32, text.count / 8 + 1))
    }

    mutating func parse() throws(JSONError) -> [JSONNode] {
        guard !text.isEmpty else { throw error("is empty", at: 0) }
        guard text.count < Int(Int32.max) else { throw error("is too large", at: 0) }
        if let bad = UTF8Check.firstInvalidOffset(in: text) { throw error("is not valid UTF-8", at: bad) }
        try value()
        skipSpace()
        guard position == text.count else { throw error("has text after its end", at: position) }
        return nodes
    }

    // MARK: Values

    private mutating func value() throws(JSONError) {
        skipSpace()
        switch current {
        case UInt8(ascii: "{"): try object()
        case UInt8(ascii: "["): try array()
        case UInt8(ascii: "\""): try string()
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try number()
        case UInt8(ascii: "t"): try literal("true", .bool, 1)
        case UInt8(ascii: "f"): try literal("false", .bool, 0)
        case UInt8(ascii: "n"): try literal("null", .null, 0)
        default: throw unexpected()
        }
    }

    private mutating func object() throws(JSONError) {
        let index = try open(.object)
        var count: Int32 = 0
        var seen: Set<[UInt8]> = []
        skipSpace()
        while current != UInt8(ascii: "}") {
            if count > 0 { try expect(UInt8(ascii: ",")) }
            skipSpace()
            guard current == UInt8(ascii: "\"") else { throw unexpected() }
            let keyPosition = position
            let key = nodes.count
            try string()
            guard isNew(key, in: index, keysBefore: Int(count), &seen) else {
                throw error("has a duplicate key", at: keyPosition)
            }
            skipSpace()
            try expect(UInt8(ascii: ":"))
            try value()
            count += 1
            skipSpace()
        }
        close(index, count)
    }

    private mutating func array() throws(JSONError) {
        let index = try open(.array)
        var count: Int32 = 0
        skipSpace()
        while current != UInt8(ascii: "]") {
            if count > 0 { try expect(UInt8(ascii: ",")) }
            try value()
            count += 1
            skipSpace()
        }
        close(index, count)
    }

    private mutating func open(_ kind: JSONView.Kind) throws(JSONError) -> Int {
        depth += 1
        guard depth <= depthMax else { throw error("is nested deeper than \(depthMax) levels", at: position) }
        position += 1
        nodes.append(JSONNode(payload: 0, length: 0, endIndex: 0, kind: kind))
        return nodes.count - 1
    }

    private mutating func close(_ index: Int, _ count: Int32) {
        position += 1
        depth -= 1
        nodes[index].length = count
        nodes[index].endIndex = Int32(truncatingIfNeeded: nodes.count)
    }

    private mutating func append(_ kind: JSONView.Kind, _ payload: Int64, length: Int = 0, isEscaped: Bool = false) {
        let end = Int32(truncatingIfNeeded: nodes.count + 1)
        nodes.append(
            JSONNode(
                payload: payload, length: Int32(truncatingIfNeeded: length), endIndex: end, kind: kind,
                isEscaped: isEscaped))
    }

    private mutating func literal(_ word: StaticString, _ kind: JSONView.Kind, _ payload: Int64) throws(JSONError) {
        for offset in 0..<word.utf8CodeUnitCount {
            guard current == word.utf8Start[offset] else { throw unexpected() }
            position += 1
        }
        append(kind, payload)
    }

    // MARK: Numbers

    private mutating func number() throws(JSONError) {
        let start = position
        let isNegative = current == UInt8(ascii: "-")
        if isNegative { position += 1 }
        // Negative all the way: the smallest Int64 has no positive twin.
        var negated: Int64 = 0
        var fits = true
        let firstDigit = position
        while let digit = digit() {
            let (product, tooLarge) = negated.multipliedReportingOverflow(by: 10)
            let (sum, tooLow) = product.subtractingReportingOverflow(Int64(digit))
            negated = sum
            fits = fits && !tooLarge && !tooLow
            position += 1
            // "01" is not a number: after a leading zero the integer part is over.
            if digit == 0, position == firstDigit + 1 { break }
        }
        guard position > firstDigit else { throw unexpected() }
        if current == UInt8(ascii: ".") || current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
            return try real(from: start)
        }
        guard fits, isNegative || negated != .min else { throw error("has a number that is out of range", at: start) }
        append(.integer, isNegative ? negated : -negated)
    }

    private mutating func real(from start: Int) throws(JSONError) {
        if current == UInt8(ascii: ".") {
            position += 1
            try digits()
        }
        if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
            position += 1
            if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position += 1 }
            try digits()
        }
        let written = String(decoding: text[start..<position], as: UTF8.self)
        guard let value = Double(written), value.isFinite else {
            throw error("has a number that is out of range", at: start)
        }
        append(.real, Int64(bitPattern: value.bitPattern))
    }

    private mutating func digits() throws(JSONError) {
        guard digit() != nil else { throw unexpected() }
        while digit() != nil { position += 1 }
    }

    private func digit() -> UInt8? {
        let digit = current &- UInt8(ascii: "0")
        return digit < 10 ? digit : nil
    }

    // MARK: Strings

    private mutating func string() throws(JSONError) {
        position += 1
        let start = position
        var isEscaped = false
        while true {
            skipPlainText()
            guard position < text.count else { throw unexpected() }
            switch text[position] {
            case UInt8(ascii: "\""):
                append(.string, Int64(start), length: position - start, isEscaped: isEscaped)
                position += 1
                return
            case UInt8(ascii: "\\"):
                isEscaped = true
                try escape()
            case 0..<0x20:
                throw unexpected()
            default:
                position += 1
            }
        }
    }

    /// Moves on to a quote, a backslash or a control character, or to the last bytes, eight bytes at a time.
    private mutating func skipPlainText() {
        guard let base = UnsafeRawPointer(text.baseAddress) else { return }
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        while position + 8 <= text.count {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            // "Bit Twiddling Hacks", a byte less than n: exact for the lowest byte found, and only that is used.
            let quote = word ^ (ones &* 0x22)
            let backslash = word ^ (ones &* 0x5c)
            let found =
                ((quote &- ones) & ~quote | (backslash &- ones) & ~backslash | (word &- ones &* 0x20) & ~word) & tops
            guard found == 0 else {
                position += found.trailingZeroBitCount / 8
                return
            }
            position += 8
        }
    }

    /// Checks the escape at the backslash; decoding comes when somebody asks for the string.
    private mutating func escape() throws(JSONError) {
        let start = position
        position += 1
        switch current {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            position += 1
        case UInt8(ascii: "u"):
            let unit = try codeUnit()
            guard unit != 0 else { throw error("has a NUL character in a string", at: start) }
            guard unit & 0xf800 == 0xd800 else { return }
            // Half of a character outside the basic plane is no text: it must come as a pair, high half first.
            guard unit & 0xfc00 == 0xd800, current == UInt8(ascii: "\\") else { throw error(Self.invalid, at: start) }
            position += 1
            guard current == UInt8(ascii: "u"), try codeUnit() & 0xfc00 == 0xdc00 else {
                throw error(Self.invalid, at: start)
            }
        default:
            throw unexpected()
        }
    }

    private mutating func codeUnit() throws(JSONError) -> UInt32 {
        position += 1
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = JSONUnescape.hexValue(current) else { throw unexpected() }
            unit = unit << 4 | UInt32(digit)
            position += 1
        }
        return unit
    }

    // MARK: Keys

    /// Whether the key at `key` is none of those before it in the object at `object`.
    private func isNew(_ key: Int, in object: Int, keysBefore: Int, _ seen: inout Set<[UInt8]>) -> Bool {
        if keysBefore >= Self.keysComparedMax {
            // A hostile object with many keys must not cost their square; Swift's hashing is seeded per process.
            if keysBefore == Self.keysComparedMax {
                forEachKey(in: object, count: keysBefore) { seen.insert(decoded($0)) }
            }
            return seen.insert(decoded(key)).inserted
        }
        var isNew = true
        forEachKey(in: object, count: keysBefore) { other in
            if isEqual(other, key) { isNew = false }
        }
        return isNew
    }

    private func forEachKey(in object: Int, count: Int, _ body: (Int) -> Void) {
        var key = object + 1
        for _ in 0..<count {
            body(key)
            key = nodes[key + 1].end
        }
    }

    private func isEqual(_ left: Int, _ right: Int) -> Bool {
        if nodes[left].isEscaped || nodes[right].isEscaped { return decoded(left) == decoded(right) }
        guard nodes[left].length == nodes[right].length, let base = text.baseAddress else { return false }
        return memcmp(base + Int(nodes[left].payload), base + Int(nodes[right].payload), Int(nodes[left].length)) == 0
    }

    private func decoded(_ index: Int) -> [UInt8] {
        let start = Int(nodes[index].payload)
        let written = text[start..<start + Int(nodes[index].length)]
        return nodes[index].isEscaped ? JSONUnescape.decoded(written) : Array(written)
    }

    // MARK: Bytes

    /// The byte at the position; 0, which is nowhere allowed, at the end.
    private var current: UInt8 { position < text.count ? text[position] : 0 }

    private mutating func skipSpace() {
        while position < text.count {
            switch text[position] {
            case 0x20, 0x0a, 0x0d, 0x09: position += 1
            default: return
            }
        }
    }

    private mutating func expect(_ byte: UInt8) throws(JSONError) {
        guard current == byte else { throw unexpected() }
        position += 1
    }

    // MARK: Errors

    private static let invalid = "is not valid JSON"

    private func unexpected() -> JSONError {
        error(position < text.count ? Self.invalid : "ends too early", at: position)
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

/// Well-formed UTF-8: RFC 3629 section 4.
enum UTF8Check {
    /// Offset of the first byte that is not part of a well-formed character; nil when there is none.
    static func firstInvalidOffset(in text: UnsafeBufferPointer<UInt8>) -> Int? {
        // No early exit, so that the loop vectorises; most documents are ASCII.
        var all: UInt8 = 0
        for byte in text { all |= byte }
        guard all >= 0x80 else { return nil }
        var offset = 0
        while offset < text.count {
            let length = characterLength(in: text, at: offset)
            guard length > 0 else { return offset }
            offset += length
        }
        return nil
    }

    private static func characterLength(in text: UnsafeBufferPointer<UInt8>, at offset: Int) -> Int {
        let length: Int
        // What the second byte may be: shuts out overlong forms, surrogates and everything above U+10FFFF.
        var second: ClosedRange<UInt8> = 0x80...0xbf
        switch text[offset] {
        case 0..<0x80: return 1
        case 0xc2...0xdf: length = 2
        case 0xe0: (length, second) = (3, 0xa0...0xbf)
        case 0xed: (length, second) = (3, 0x80...0x9f)
        case 0xe1...0xef: length = 3
        case 0xf0: (length, second) = (4, 0x90...0xbf)
        case 0xf1...0xf3: length = 4
        case 0xf4: (length, second) = (4, 0x80...0x8f)
        default: return 0
        }
        guard offset + length <= text.count, second.contains(text[offset + 1]) else { return 0 }
        return text[(offset + 1)..<(offset + length)].allSatisfy { $0 & 0xc0 == 0x80 } ? length : 0
    }
}
