// Ledger: all money state, in Redis: who owns a purchase, what is in a wallet, and why.
//
// A purchase becomes gems in two steps, each safe to repeat. `claim` writes the owner of the purchase key with HSETNX,
// once for ever, over all partitions. `credit` runs one script in the player's partition that sets the mark, adds to the
// wallet and appends the entry together. They are two steps because in a cluster claim and wallet live on different
// shards; so a process may die between them, and the only thing that suppresses a credit is the player's own mark,
// never the claim. After a crash anywhere the same calls are made again and end in the same state.
public import Commerce
public import Redis
public import ServiceRuntime

/// The money of one partition of players.
///
/// All calls of one kind made in the same turn of the loop go to Redis as one script. `credit` answers only after
/// Redis did, which with `appendfsync always` is after the write is on disk.
@LoopActor
public final class Ledger {
    /// Which part of which Redis this is; all of it stands in the meta key.
    public struct Configuration: Sendable {
        /// The partition.
        public var partition: Int
        /// The number of claim buckets; fixed for life.
        public var buckets: Int
        /// The identity of the data set; scripts refuse to run on any other.
        public var incarnation: String
        /// The currencies of the game.
        public var currencies: [CurrencyCode]

        /// Names a partition.
        public init(partition: Int = 0, buckets: Int, incarnation: String, currencies: [CurrencyCode] = [.gems]) {
            self.partition = partition
            self.buckets = buckets
            self.incarnation = incarnation
            self.currencies = currencies
        }
    }

    private let redis: RedisConnection
    private let configuration: Configuration
    private let keys: LedgerKeys
    private let finishScript: BatchedScript
    private let creditedScript: BatchedScript
    private let walletScript: BatchedScript

    /// Opens a partition's ledger.
    public init(redis: RedisConnection, configuration: Configuration) {
        self.redis = redis
        self.configuration = configuration
        let keys = LedgerKeys(partition: configuration.partition, buckets: configuration.buckets)
        let incarnation = RedisArgument.string(configuration.incarnation)
        let currencies = configuration.currencies.map { RedisArgument.string($0.rawValue) }
        self.keys = keys
        finishScript = BatchedScript(
            LedgerScripts.finish, on: redis, sharedKeys: [keys.meta], sharedArguments: [incarnation], keysPerCall: 3,
            argumentsPerCall: 5, idempotent: true)
        creditedScript = BatchedScript(
            LedgerScripts.credited, on: redis, sharedKeys: [keys.meta], sharedArguments: [incarnation], keysPerCall: 1,
            argumentsPerCall: 1, idempotent: true)
        walletScript = BatchedScript(
            LedgerScripts.wallet, on: redis, sharedKeys: [keys.meta],
            sharedArguments: [incarnation, .int(Int64(currencies.count))] + currencies, keysPerCall: 2,
            argumentsPerCall: 1, idempotent: true)
    }

    /// Claims a purchase for a player, for ever.
    ///
    /// Safe to repeat: whoever claimed first stays the owner, and the same player hears `.mine` every time.
    public func claim(_ key: PurchaseKey, for player: PlayerID) async throws(LedgerError) -> Claim {
        let bucket = keys.claims(key)
        let digest = RedisArgument.bytes(key.digest)
        do throws(RedisError) {
            if try await setClaim(bucket, digest, .string(player.rawValue)) { return .mine }
            let owner = try await redis.send(["HGET", bucket, digest], idempotent: true)
            if let owner = owner.bytes { return owner.elementsEqual(player.rawValue.utf8) ? .mine : .belongsToAnother }
        } catch {
            throw LedgerError(error)
        }
        throw .damaged("a claim vanished")
    }

    /// HSETNX, also when Redis's memory is full: a full Redis must be able to drain, and only scripts may then write.
    private func setClaim(
        _ bucket: RedisArgument, _ digest: RedisArgument, _ player: RedisArgument
    ) async throws(RedisError) -> Bool {
        do throws(RedisError) {
            return try await redis.send(["HSETNX", bucket, digest, player], idempotent: true) == .integer(1)
        } catch {
            guard error.kind == .outOfMemory else { throw error }
        }
        let reply = try await redis.evaluate(
            LedgerScripts.claim, keys: [bucket], arguments: [digest, player], idempotent: true)
        return reply == .integer(1)
    }

    /// Puts a purchase into the wallet of the player who claimed it, once.
    ///
    /// Safe to repeat; a repetition changes nothing. Call it only after `claim` said `.mine`.
    ///
    /// - Parameters:
    ///   - purchase: what the store confirmed.
    ///   - player: the owner of the claim.
    ///   - submission: the submission that led to it, for the entry.
    /// - Returns: what is in the wallet now, and whether this call put it there.
    /// - Throws: `LedgerError`. Nothing was changed, or, when the connection was lost, it is unknown: call again.
    public func credit(
        _ purchase: VerifiedPurchase, to player: PlayerID, submission: SubmissionID
    ) async throws(LedgerError) -> CreditOutcome {
        let credit = CreditArguments(purchase, submission: submission)
        let reply: RedisValue
        do throws(RedisError) {
            reply = try await finishScript.call(
                keys: [keys.player(player), keys.ledger(player), keys.entitlements(player)], arguments: credit.arguments
            )
        } catch {
            if error.kind == .other(code: "TELLERBALANCE") { return .balanceTooLarge }
            throw LedgerError(error)
        }
        return try credit.outcome(of: reply)
    }

    /// The position of a purchase's entry in the player's ledger; nil when it is not credited to this player.
    public func position(of key: PurchaseKey, in player: PlayerID) async throws(LedgerError) -> Int64? {
        do throws(RedisError) {
            return try await creditedScript.call(keys: [keys.player(player)], arguments: [.bytes(key.digest)]).int
        } catch {
            throw LedgerError(error)
        }
    }

    /// The entry under which a purchase is in this player's wallet; nil when it is not.
    public func creditedItem(
        of key: PurchaseKey, in player: PlayerID
    ) async throws(LedgerError) -> HistoryPage.Item? {
        guard let position = try await position(of: key, in: player) else { return nil }
        return try await history(of: player, limit: 1, before: position + 1).items.first
    }

    /// Balances, and unless told otherwise entitlements, as they are now.
    public func wallet(of player: PlayerID, entitlements: Bool = true) async throws(LedgerError) -> Wallet {
        let reply: RedisValue
        do throws(RedisError) {
            reply = try await walletScript.call(
                keys: [keys.player(player), keys.entitlements(player)], arguments: [entitlements ? "1" : "0"])
        } catch {
            throw LedgerError(error)
        }
        guard let parts = reply.elements, parts.count == 2, let amounts = parts[0].elements,
            amounts.count == configuration.currencies.count, let owned = parts[1].elements
        else { throw .damaged("a wallet's reply has another shape") }
        var balances: [CurrencyAmount] = []
        for (currency, amount) in zip(configuration.currencies, amounts) {
            guard let amount = amount.isNull ? 0 : amount.int else { throw .damaged("a balance is not an integer") }
            balances.append(CurrencyAmount(currency, amount))
        }
        let names = stride(from: 0, to: owned.count, by: 2).compactMap { owned[$0].text }
        return Wallet(balances: balances, entitlements: names.sorted().compactMap { EntitlementID(rawValue: $0) })
    }

    /// One page of a player's ledger, newest first.
    ///
    /// - Parameters:
    ///   - player: whose ledger.
    ///   - limit: entries at most, 1…`Limits.historyPageMax`; other values are moved into that range.
    ///   - before: the `cursor` of the page before this one; nil starts with the newest entry.
    /// - Returns: the page; empty for an unknown player. Entries added meanwhile appear on a new first page only.
    /// - Throws: `LedgerError`.
    public func history(
        of player: PlayerID, limit: Int = Limits.historyPageMax, before: Int64? = nil
    ) async throws(LedgerError) -> HistoryPage {
        if let before, before <= 1 { return HistoryPage(items: [], cursor: nil) }
        let limit = min(max(limit, 1), Limits.historyPageMax)
        let reply: RedisValue
        do throws(RedisError) {
            reply = try await redis.evaluate(
                LedgerScripts.history, keys: [keys.meta, keys.ledger(player)],
                arguments: [.string(configuration.incarnation), .int(before ?? 0), .int(Int64(limit))],
                idempotent: true)
        } catch {
            throw LedgerError(error)
        }
        guard let parts = reply.elements, parts.count == 2, let first = parts[0].int, let entries = parts[1].elements
        else { throw .damaged("a page's reply has another shape") }
        let items = entries.enumerated().reversed().map { offset, entry in
            HistoryPage.Item(position: first + Int64(offset), entry: CreditArguments.entry(in: entry))
        }
        return HistoryPage(items: items, cursor: first > 1 && !items.isEmpty ? first : nil)
    }
}
