import COpenSSL

/// One-shot digests.
///
/// The algorithm is fetched from OpenSSL once: an implicit fetch for every call costs more than hashing a short text.
public enum Digest {
    /// SHA-256 of the bytes: 32 bytes.
    public static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        bytes.withUnsafeBytes { sha256($0) }
    }

    /// SHA-256 of the text's UTF-8: 32 bytes.
    public static func sha256(_ text: String) -> [UInt8] {
        var text = text
        return text.withUTF8 { sha256(UnsafeRawBufferPointer($0)) }
    }

    /// SHA-256 of the memory: 32 bytes.
    public static func sha256(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        algorithms.sha256.digest(bytes)
    }

    /// SHA-1 of the bytes: 20 bytes.
    ///
    /// Only for formats that demand it (UUID version 5); it is not collision resistant.
    public static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        bytes.withUnsafeBytes { algorithms.sha1.digest($0) }
    }

    /// Lower-case hexadecimal, two digits a byte.
    public static func hex(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(bytes.underestimatedCount * 2)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes of a hexadecimal text of either case, or nil when it is not one.
    public static func bytes(hex text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = value(ofHexDigit: digits[index]), let low = value(ofHexDigit: digits[index + 1]) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func value(ofHexDigit digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x41...0x46: digit - 0x41 + 10
        case 0x61...0x66: digit - 0x61 + 10
        default: nil
        }
    }

    static let algorithms = (sha256: DigestAlgorithm("SHA256", bytes: 32), sha1: DigestAlgorithm("SHA1", bytes: 20))
}

/// A digest algorithm fetched from OpenSSL for the life of the process.
struct DigestAlgorithm: @unchecked Sendable {
    // Invariant: a fetched EVP_MD is immutable; OpenSSL shares it between threads by reference count.
    let pointer: OpaquePointer
    let size: Int

    init(_ name: String, bytes size: Int) {
        guard let fetched = EVP_MD_fetch(nil, name, nil) else {
            preconditionFailure("OpenSSL was built without \(name), which Teller cannot work without")
        }
        pointer = fetched
        self.size = size
    }

    func digest(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: size) { output, count in
            let done = EVP_Digest(bytes.baseAddress, bytes.count, output.baseAddress, nil, pointer, nil)
            // Fails only when memory is exhausted; a wrong digest must never be used as a key.
            precondition(done == 1, "OpenSSL could not compute a digest")
            count = size
        }
    }
}
