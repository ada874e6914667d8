public import Redis

/// Why the ledger could not do or say something.
///
/// Never means that a purchase is bad.
public enum LedgerError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Redis did not do it, or it is unknown whether it did; every call here may simply be made again.
    case redis(RedisError)
    /// The meta key is missing or names another incarnation: a wiped, restored or foreign Redis.
    ///
    /// Its empty marks would credit the world a second time. Nothing was changed; a human must look.
    case foreignRedis
    /// The server does not hold what this module wrote there: a key of another type, a balance that is no integer.
    ///
    /// Only this player or purchase is affected, and nothing was changed; a human must look.
    case damaged(String)

    /// Whether this player's data stand in the way, and not the server or our access to it.
    public var isDamage: Bool {
        if case .damaged = self { true } else { false }
    }

    init(_ error: RedisError) {
        switch error.kind {
        case .other(code: "TELLERMETA"): self = .foreignRedis
        case .other(code: "TELLERDAMAGED"): self = .damaged("a balance or mark is not an integer")
        case .wrongType: self = .damaged("a key holds another type")
        default: self = .redis(error)
        }
    }

    /// What happened, without keys and values.
    public var description: String {
        switch self {
        case .redis(let error): "redis: \(error)"
        case .foreignRedis: "the Redis behind this address is not the one this ledger was made in"
        case .damaged(let what): "damaged: \(what)"
        }
    }
}
