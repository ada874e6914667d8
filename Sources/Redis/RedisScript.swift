/// A Lua script and its name; sent by digest once the server has told it.
///
/// The digest (SHA-1) is asked of the server with `redis.sha1hex`, which needs no permission beyond EVAL's and no
/// cryptography of ours; until it is known, and whenever the server answers NOSCRIPT (after a restart, a failover, SCRIPT
/// FLUSH), the call goes out as EVAL with the whole text. So every single call falls back, and there is no loading step
/// whose loss could stop the service.
public struct RedisScript: Sendable {
    final class Source: Sendable {
        let name: String
        let text: [UInt8]

        init(name: String, text: String) {
            self.name = name
            self.text = Array(text.utf8)
        }
    }

    enum Verb {
        case eval([UInt8])
        case evalsha([UInt8])
    }

    let source: Source

    /// Names a script for people and gives its text.
    public init(name: String, text: String) {
        source = Source(name: name, text: text)
    }

    /// The name for logs.
    public var name: String { source.name }
}
