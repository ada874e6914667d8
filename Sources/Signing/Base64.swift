/// Standard base64 with padding (RFC 4648 §4), strict: no white space, no missing padding, no stray bits.
public enum Base64 {
    /// The padded text of the bytes.
    public static func encode(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.withUnsafeBytes { Base64Alphabet.standard.encode($0) }, as: UTF8.self)
    }

    /// The bytes of the text, or nil when it is not exactly what `encode` would write.
    public static func decode(_ text: String) -> [UInt8]? {
        var text = text
        return text.withUTF8 { Base64Alphabet.standard.decode(UnsafeRawBufferPointer($0)) }
    }
}

/// URL-safe base64 without padding as JWS uses it (RFC 7515 §2), strict: one text for each sequence of bytes.
public enum Base64URL {
    /// The unpadded text of the bytes.
    public static func encode(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.withUnsafeBytes { Base64Alphabet.url.encode($0) }, as: UTF8.self)
    }

    /// The bytes of the text, or nil when it is not exactly what `encode` would write.
    public static func decode(_ text: String) -> [UInt8]? {
        var text = text
        return text.withUTF8 { Base64Alphabet.url.decode(UnsafeRawBufferPointer($0)) }
    }
}

/// The two alphabets of RFC 4648 and one codec for both.
///
/// Foundation's decoder is not used: it accepts stray bits in the last symbol, so one signature would have several
/// texts, and with them a submission several ids.
struct Base64Alphabet: Sendable {
    static let standard = Base64Alphabet(last: "+/", isPadded: true)
    static let url = Base64Alphabet(last: "-_", isPadded: false)

    private static let padding = UInt8(ascii: "=")
    private let symbols: [UInt8]
    /// Symbol → value; 0xFF for everything that is no symbol.
    private let values: [UInt8]
    private let isPadded: Bool

    private init(last: String, isPadded: Bool) {
        symbols = Array(("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + last).utf8)
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, symbol) in symbols.enumerated() { values[Int(symbol)] = UInt8(value) }
        self.values = values
        self.isPadded = isPadded
    }

    func encode(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        symbols.withUnsafeBufferPointer { symbols in
            var index = 0
            while index + 3 <= bytes.count {
                let group = UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2])
                text.append(symbols[Int(group >> 18 & 63)])
                text.append(symbols[Int(group >> 12 & 63)])
                text.append(symbols[Int(group >> 6 & 63)])
                text.append(symbols[Int(group & 63)])
                index += 3
            }
            let left = bytes.count - index
            guard left > 0 else { return }
            let group = UInt32(bytes[index]) << 16 | (left == 2 ? UInt32(bytes[index + 1]) << 8 : 0)
            text.append(symbols[Int(group >> 18 & 63)])
            text.append(symbols[Int(group >> 12 & 63)])
            if left == 2 { text.append(symbols[Int(group >> 6 & 63)]) }
            if isPadded { text.append(contentsOf: repeatElement(Self.padding, count: 3 - left)) }
        }
        return text
    }

    func decode(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        var count = text.count
        if isPadded {
            guard count.isMultiple(of: 4) else { return nil }
            for _ in 0..<2 where count > 0 && text[count - 1] == Self.padding { count -= 1 }
        }
        let left = count % 4
        guard left != 1 else { return nil }
        let size = count / 4 * 3 + (left == 0 ? 0 : left - 1)
        // Values are below 64, so the two top bits of this union stay clear as long as every symbol was one.
        var union: UInt8 = 0
        var strayBits: UInt32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { output, initialized in
            values.withUnsafeBufferPointer { values in
                var written = 0
                var index = 0
                while index + 4 <= count {
                    let a = values[Int(text[index])]
                    let b = values[Int(text[index + 1])]
                    let c = values[Int(text[index + 2])]
                    let d = values[Int(text[index + 3])]
                    union |= a | b | c | d
                    output[written] = a << 2 | b >> 4
                    output[written + 1] = b << 4 | c >> 2
                    output[written + 2] = c << 6 | d
                    written += 3
                    index += 4
                }
                if left > 0 {
                    let a = values[Int(text[index])]
                    let b = values[Int(text[index + 1])]
                    let c = left == 3 ? values[Int(text[index + 2])] : 0
                    union |= a | b | c
                    output[written] = a << 2 | b >> 4
                    if left == 3 { output[written + 1] = b << 4 | c >> 2 }
                    strayBits = UInt32(left == 3 ? c & 3 : b & 15)
                }
            }
            initialized = size
        }
        return union & 0xC0 == 0 && strayBits == 0 ? bytes : nil
    }
}
