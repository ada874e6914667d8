import Commerce
import Redis

/// Every Redis key of this module, made in one place.
///
/// What belongs to one player shares the hash tag `{p}`, so that one script may change it together. Claims have no tag:
/// they are global, because the same proof may be handed in for players of different partitions. None has a TTL, ever.
///
/// | key | type | what |
/// |---|---|---|
/// | `teller:{p}:player:<user>` | HASH | currency → balance; 16-byte digest of a purchase key → position of its entry |
/// | `teller:{p}:ledger:<user>` | LIST | entries, append-only; an entry's position is its number from 1 |
/// | `teller:{p}:entitlements:<user>` | HASH | entitlement → position of the entry that granted it |
/// | `teller:claims:<bucket>` | HASH | 16-byte digest of a purchase key → user id of its only owner |
///
/// Balances and marks share a hash because one HMGET and one HSET then do what took two of each: 10 % of the
/// instructions Redis spends on a credit. A currency cannot be mistaken for a mark: that would take a SHA-256 that
/// begins with its name and is as long.
struct LedgerKeys: Sendable {
    let meta: RedisArgument
    private let playerPrefix: String
    private let ledgerPrefix: String
    private let entitlementsPrefix: String
    private let buckets: UInt32

    init(partition: Int, buckets: Int) {
        precondition((1...Int(UInt32.max)).contains(buckets), "there is at least one bucket of claims")
        let prefix = "teller:{\(partition)}:"
        meta = .string(prefix + "meta")
        playerPrefix = prefix + "player:"
        ledgerPrefix = prefix + "ledger:"
        entitlementsPrefix = prefix + "entitlements:"
        self.buckets = UInt32(buckets)
    }

    func player(_ id: PlayerID) -> RedisArgument { .string(playerPrefix + id.rawValue) }
    func ledger(_ id: PlayerID) -> RedisArgument { .string(ledgerPrefix + id.rawValue) }
    func entitlements(_ id: PlayerID) -> RedisArgument { .string(entitlementsPrefix + id.rawValue) }

    /// The bucket is the digest's first four bytes, big-endian, modulo the number of buckets.
    func claims(_ key: PurchaseKey) -> RedisArgument {
        let number = key.digest.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return .string("teller:claims:\(number % buckets)")
    }
}
