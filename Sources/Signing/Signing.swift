// Signing proves who made a piece of text, and makes such text ourselves.
//
// It exists so that everything that touches keys and certificates is in one pure, synchronous module on OpenSSL: Apple's
// signed transactions (`SignedDataVerifier`), the tokens we present to both stores (`JWT`), digests, constant-time
// comparison, strict base64, and the certificates that the store emulator and the tests sign with (`MintedChain`).
// It does no I/O and keeps no state but a bounded cache of certificate chains, so a crash loses nothing.
// Nothing here implements cryptography: OpenSSL's EVP interface does, and we only decide what to ask of it.
// Errors never carry key material or the text that was being checked.

import COpenSSL

/// Compares two secrets in a time that depends only on their lengths, so that a guesser learns nothing from timing.
public func constantTimeEquals(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    guard a.count == b.count else { return false }
    return a.withUnsafeBytes { left in
        b.withUnsafeBytes { right in
            // CRYPTO_memcmp wants valid pointers even for zero bytes; an empty array may have none.
            guard let left = left.baseAddress, let right = right.baseAddress else { return true }
            return CRYPTO_memcmp(left, right, a.count) == 0
        }
    }
}

/// What OpenSSL said when one of its functions failed: fixed reason texts of the library, never data.
public struct OpenSSLError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What we were doing.
    public let operation: String
    /// OpenSSL's reasons, oldest first.
    public let reasons: [String]

    /// The operation and the reasons in one line.
    public var description: String {
        reasons.isEmpty ? "\(operation) failed" : "\(operation) failed: \(reasons.joined(separator: "; "))"
    }

    /// Drains the calling thread's error queue into a value.
    static func draining(_ operation: String) -> OpenSSLError {
        var reasons: [String] = []
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            // The numeric code is not useful to anybody; its optional data may quote input, so it is left alone.
            if let text = ERR_reason_error_string(code) { reasons.append(String(cString: text)) }
        }
        return OpenSSLError(operation: operation, reasons: reasons)
    }
}

/// Runs OpenSSL calls with an error queue that is empty before and after them.
///
/// The queue belongs to the thread: what is left in it would be read as the reason of somebody else's failure
/// (libcurl uses the same OpenSSL).
func withCleanErrorQueue<T, E: Error>(_ body: () throws(E) -> T) throws(E) -> T {
    ERR_clear_error()
    defer { ERR_clear_error() }
    return try body()
}
