/// A value that can be written as one JSON value.
///
/// Identifier types conform by writing their text, so that call sites need not unwrap them.
public protocol JSONWritable {
    /// Writes exactly one JSON value.
    func write(to writer: inout JSONWriter)
}

extension String: JSONWritable {
    /// Writes a string; only `"`, `\` and control characters are escaped.
    public func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension Substring: JSONWritable {
    /// Writes a string; only `"`, `\` and control characters are escaped.
    public func write(to writer: inout JSONWriter) { writer.string(String(self)) }
}

extension Int: JSONWritable {
    /// Writes a decimal integer.
    public func write(to writer: inout JSONWriter) { writer.integer(Int64(self)) }
}

extension Int64: JSONWritable {
    /// Writes a decimal integer.
    public func write(to writer: inout JSONWriter) { writer.integer(self) }
}

extension Bool: JSONWritable {
    /// Writes `true` or `false`.
    public func write(to writer: inout JSONWriter) { writer.raw((self ? "true" : "false").utf8) }
}

extension Double: JSONWritable {
    /// Writes the shortest text that reads back as the same number; JSON has no NaN or infinity, these become `null`.
    public func write(to writer: inout JSONWriter) {
        if isFinite { writer.raw(description.utf8) } else { writer.null() }
    }
}

/// The escapes of RFC 8259 section 7.
enum JSONEscape {
    private static let hexDigits = Array("0123456789abcdef".utf8)

    /// Whether any byte must be escaped, eight bytes at a time: a job carries 6 kB of receipt.
    static func isNeeded(in utf8: UnsafeBufferPointer<UInt8>) -> Bool {
        let bytes = UnsafeRawBufferPointer(utf8)
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        var found: UInt64 = 0
        var position = 0
        while position + 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)
            // "Bit Twiddling Hacks", a byte less than n: zero if and only if there is none.
            let quote = word ^ (ones &* 0x22)
            let backslash = word ^ (ones &* 0x5c)
            found |= (quote &- ones) & ~quote | (backslash &- ones) & ~backslash | (word &- ones &* 0x20) & ~word
            position += 8
        }
        guard found & tops == 0 else { return true }
        return bytes[position...].contains { $0 < 0x20 || $0 == 0x22 || $0 == 0x5c }
    }

    static func append(_ utf8: UnsafeBufferPointer<UInt8>, to bytes: inout [UInt8]) {
        guard isNeeded(in: utf8) else {
            bytes.append(contentsOf: utf8)
            return
        }
        for byte in utf8 {
            switch byte {
            case 0x22, 0x5c: bytes.append(contentsOf: [0x5c, byte])
            case 0x0a: bytes.append(contentsOf: [0x5c, UInt8(ascii: "n")])
            case 0x0d: bytes.append(contentsOf: [0x5c, UInt8(ascii: "r")])
            case 0x09: bytes.append(contentsOf: [0x5c, UInt8(ascii: "t")])
            case 0..<0x20:
                bytes.append(contentsOf: "\\u00".utf8)
                bytes.append(hexDigits[Int(byte >> 4)])
                bytes.append(hexDigits[Int(byte & 0xf)])
            default: bytes.append(byte)
            }
        }
    }

    /// Appends the decimal digits of `value`; `String(value)` allocates from 16 digits on, and our times have 13.
    static func append(_ value: Int64, to bytes: inout [UInt8]) {
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        var rest = value.magnitude
        let start = bytes.count
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
            rest /= 10
        } while rest != 0
        bytes[start...].reverse()
    }
}
