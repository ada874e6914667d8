import Glibc

/// Names one run of one worker process: `host:pid:nonce`.
///
/// The nonce makes a restarted process another worker (pids come back, and in containers host and pid are often the
/// same each time): what its predecessor held is then visibly a dead worker's and is reaped.
public struct WorkerID: Hashable, Sendable, CustomStringConvertible {
    /// The name as it stands in Redis: at most 128 bytes of `[A-Za-z0-9._:-]`.
    public let text: String

    /// Takes a name as it is, for tests and tools; nil when it holds other characters or is too long.
    public init?(_ text: String) {
        guard JobName.isValid(text) else { return nil }
        self.text = text
    }

    /// Names this process now.
    public init() {
        var buffer = [CChar](repeating: 0, count: 256)
        gethostname(&buffer, buffer.count - 1)
        let host = buffer.prefix { $0 != 0 }.prefix(64).map { character -> Character in
            let byte = UInt8(bitPattern: character)
            return JobName.allows(byte) && byte != UInt8(ascii: ":") ? Character(Unicode.Scalar(byte)) : "-"
        }
        let nonce = String(UInt64.random(in: .min ... .max), radix: 16)
        text = "\(String(host)):\(getpid()):\(nonce)"
    }

    /// The same as ``text``.
    public var description: String { text }
}

/// What may name a submission, a queue or a worker inside keys and entry headers.
enum JobName {
    static let bytesMax = 128

    /// `[A-Za-z0-9._:-]`, as in the pattern of `prelude.lua`.
    static func allows(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: ":"),
            UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    static func isValid(_ text: String) -> Bool {
        !text.isEmpty && text != "-" && text.utf8.count <= bytesMax && text.utf8.allSatisfy(allows)
    }

    /// Queue names stand before ":" or "!" in lease ids, so they hold neither.
    static func isValidQueue(_ text: String) -> Bool {
        isValid(text) && !text.utf8.contains { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }
    }
}
