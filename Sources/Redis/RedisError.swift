/// Why a command has no result: what the server said, or what happened to the connection.
///
/// The two questions that decide what a caller may do next are answered here, in one place, and never by looking into
/// the text: ``isRetryable`` and ``mayHaveBeenApplied``.
public struct RedisError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The class of an error.
    public enum Kind: Equatable, Sendable {
        /// READONLY: a write reached a replica. The connection is dropped and the name resolved again.
        case readOnly
        /// LOADING: the server reads its data from disk after a start.
        case loading
        /// MISCONF: the server cannot write to its disk and refuses writes.
        case misconf
        /// OOM: `maxmemory` is reached.
        case outOfMemory
        /// NOREPLICAS: fewer good replicas than `min-replicas-to-write`.
        case noReplicas
        /// NOSCRIPT: the script cache does not hold this digest (answered with EVAL, see ``RedisScript``).
        case noScript
        /// BUSY: a script has been running for longer than `busy-reply-threshold`.
        case busy
        /// NOAUTH: the server wants a password that the address does not have.
        case noAuth
        /// NOPERM: the ACL user may not do this, or a script may not do it for this user.
        case noPermission
        /// WRONGPASS: user or password is wrong.
        case wrongPassword
        /// MOVED: another node of the cluster owns the slot.
        case moved(slot: Int, address: String)
        /// ASK: the slot is on its way to another node.
        case ask(slot: Int, address: String)
        /// TRYAGAIN: the keys of a multi-key command are on two nodes while their slot moves.
        case tryAgain
        /// CROSSSLOT: the keys of a command belong to several slots; a mistake in the caller.
        case crossSlot
        /// CLUSTERDOWN: the cluster does not serve this slot now.
        case clusterDown
        /// MASTERDOWN: a replica lost its primary. The connection is dropped and the name resolved again.
        case masterDown
        /// UNBLOCKED: a blocking command was ended because the server became a replica.
        case unblocked
        /// WRONGTYPE: the key holds another kind of value.
        case wrongType
        /// Another error reply, with its first word, such as `ERR`.
        case other(code: String)
        /// There is no connection, or it was lost before a byte of the command was written: it was *not* applied.
        case notConnected
        /// The connection was lost after the command was sent: whether it was applied is unknown.
        case connectionLost
        /// The command was sent and not answered in time: whether it was applied is unknown.
        case deadlineExceeded
        /// The server sent something that is not the Redis protocol, or is nested too deeply.
        case protocolError
        /// The client itself refused, before sending anything; the text says why.
        case refused
    }

    /// The class.
    public let kind: Kind
    /// The server's text, or ours, without arguments of the command and without passwords; for people only.
    public let message: String
    /// True when a script raised it: Lua does not roll back what the script wrote before.
    public let isFromScript: Bool

    /// Makes an error of the client's side.
    public init(_ kind: Kind, _ message: String = "") {
        self.kind = kind
        self.message = message
        isFromScript = false
    }

    /// Whether the same command may succeed later without anybody changing the command, the data or the configuration.
    public var isRetryable: Bool {
        switch kind {
        case .readOnly, .loading, .misconf, .outOfMemory, .noReplicas, .noScript, .busy, .moved, .ask, .tryAgain,
            .clusterDown, .masterDown, .unblocked, .notConnected, .connectionLost, .deadlineExceeded:
            true
        case .noAuth, .noPermission, .wrongPassword, .crossSlot, .wrongType, .other, .protocolError, .refused:
            false
        }
    }

    /// Whether the command may have taken effect, so that only an idempotent one may be sent again.
    ///
    /// True when it was sent and no reply was seen, and when a script failed on its way: an error reply to a plain command
    /// means that nothing was changed, one from inside a script does not.
    public var mayHaveBeenApplied: Bool {
        switch kind {
        case .connectionLost, .deadlineExceeded, .protocolError: true
        default: isFromScript
        }
    }

    /// True when the server behind this connection cannot be used as it is, and a new connection (to an address resolved
    /// anew) may find one that can.
    var asksForAnotherConnection: Bool {
        kind == .readOnly || kind == .masterDown || kind == .loading
    }

    /// True when a command that may be sent twice is to be sent again on the next connection.
    var mayBeCuredByReconnecting: Bool {
        kind == .notConnected || kind == .connectionLost || asksForAnotherConnection
    }

    /// True when connecting again cannot help until somebody changes the configuration.
    var isWrongConfiguration: Bool {
        kind == .wrongPassword || kind == .noAuth || kind == .noPermission || kind == .refused
    }

    /// The class and the text.
    public var description: String { message.isEmpty ? "\(kind)" : "\(kind): \(message)" }
}

extension RedisError {
    /// Bytes kept of a server's error text.
    static let messageBytesMax = 256

    private static let kinds: [Substring: Kind] = [
        "READONLY": .readOnly, "LOADING": .loading, "MISCONF": .misconf, "OOM": .outOfMemory, "NOREPLICAS": .noReplicas,
        "NOSCRIPT": .noScript, "BUSY": .busy, "NOAUTH": .noAuth, "NOPERM": .noPermission, "WRONGPASS": .wrongPassword,
        "TRYAGAIN": .tryAgain, "CROSSSLOT": .crossSlot, "CLUSTERDOWN": .clusterDown, "MASTERDOWN": .masterDown,
        "UNBLOCKED": .unblocked, "WRONGTYPE": .wrongType,
    ]

    /// Classifies the text of an error reply: `CODE text`, RESP specification "Simple errors".
    init(reply text: String) {
        let words = text.split(separator: " ", maxSplits: 3)
        let code = words.first ?? "ERR"
        kind =
            switch code {
            case "MOVED": Self.redirection(words).map { .moved(slot: $0, address: $1) } ?? .protocolError
            case "ASK": Self.redirection(words).map { .ask(slot: $0, address: $1) } ?? .protocolError
            // What a script was not allowed to do has no code of its own (redis/src/script.c, scriptVerifyACL).
            case "ERR" where text.contains("The user executing the script can't"): .noPermission
            default: Self.kinds[code] ?? .other(code: String(code.prefix(32)))
            }
        // An unknown command is echoed with the beginning of its arguments, which may be a receipt or a password.
        let end = text.firstRange(of: ", with args beginning with")?.lowerBound ?? text.endIndex
        message = String(decoding: text[..<end].utf8.prefix(Self.messageBytesMax), as: UTF8.self)
        // Redis 7: "… script: <sha>, on @user_script:3."; before 7: "ERR Error running script (call to f_<sha>): …".
        isFromScript = text.contains("@user_script") || text.contains("Error running script")
    }

    private static func redirection(_ words: [Substring]) -> (slot: Int, address: String)? {
        guard words.count >= 3, let slot = Int(words[1]) else { return nil }
        return (slot, String(words[2]))
    }
}
