import Commerce
import Ledger
import Redis
import ServiceRuntime
import Signing

/// A ledger entry, as the audit understands it.
struct AuditedEntry: Sendable, Equatable {
    let key: String
    /// The first half of the SHA-256 of the key: the field of the permanent mark.
    let mark: [UInt8]
    let productID: String
    let grants: [String: Int64]
    let entitlements: Set<String>

    /// Reads the entry's JSON by its documentation, not with the ledger's code.
    init?(_ bytes: [UInt8]) {
        do throws(JSONError) {
            let view = try JSONView.parse(bytes)
            guard try view.int64("v") == 1, try view.string("kind") == "credit" else { return nil }
            key = try view.string("key")
            productID = try view.string("productId")
            var grants: [String: Int64] = [:]
            for (currency, amount) in try view.object("grants").members() {
                guard let amount = Int64(try amount.string()) else { return nil }
                grants[currency] = amount
            }
            self.grants = grants
            var entitlements: Set<String> = []
            for right in try view.optionalElements("entitlements") ?? [] { entitlements.insert(try right.string()) }
            self.entitlements = entitlements
        } catch {
            return nil
        }
        mark = WalletReader.mark(of: key)
    }
}

/// Everything that Redis holds for one player.
struct AuditedWallet: Sendable {
    struct Problem: Sendable {
        let kind: AuditDifference.Kind
        let detail: String
    }

    let player: String
    var balances: [String: Int64] = [:]
    /// Digest of a purchase key → position of its entry, from 1.
    var marks: [[UInt8]: Int64] = [:]
    /// Oldest first; nil for one that cannot be read.
    var entries: [AuditedEntry?] = []
    var entitlements: Set<String> = []
    var problems: [Problem] = []
}

/// Reads wallets twice: from the keys themselves, and as the ledger shows them to the rest of Teller.
@LoopActor
final class WalletReader {
    private static let pageSize = 500

    private let redis: RedisConnection
    private let ledger: Ledger

    init(_ redis: RedisConnection, ledger: Ledger) {
        self.redis = redis
        self.ledger = ledger
    }

    nonisolated static func mark(of key: String) -> [UInt8] { Array(Digest.sha256(key).prefix(16)) }

    func read(_ players: [String]) async throws -> [AuditedWallet] {
        try await withThrowingTaskGroup(of: (Int, AuditedWallet).self) { group in
            for (index, player) in players.enumerated() {
                group.addTask { @LoopActor @Sendable in (index, try await self.read(player)) }
            }
            var wallets: [(Int, AuditedWallet)] = []
            for try await wallet in group { wallets.append(wallet) }
            return wallets.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    private func read(_ player: String) async throws -> AuditedWallet {
        var wallet = AuditedWallet(player: player)
        let prefix = "teller:{0}:"
        let fields = try await redis.send(["HGETALL", .string(prefix + "player:" + player)], idempotent: true)
        sort(fields.elements ?? [], into: &wallet)
        var isComplete = false
        while !isComplete {
            let first = Int64(wallet.entries.count)
            let page =
                try await redis.send(
                    [
                        "LRANGE", .string(prefix + "ledger:" + player), .int(first),
                        .int(first + Int64(Self.pageSize) - 1),
                    ], idempotent: true
                ).elements ?? []
            wallet.entries += page.map { $0.bytes.flatMap { AuditedEntry($0) } }
            isComplete = page.count < Self.pageSize
        }
        let owned = try await redis.send(["HKEYS", .string(prefix + "entitlements:" + player)], idempotent: true)
        wallet.entitlements = Set((owned.elements ?? []).compactMap(\.text))
        try await compareWithLedger(&wallet)
        return wallet
    }

    /// One hash holds balances and marks: a mark has a field of 16 bytes that is no currency's name.
    private func sort(_ fields: [RedisValue], into wallet: inout AuditedWallet) {
        for index in stride(from: 0, to: fields.count - 1, by: 2) {
            guard let name = fields[index].bytes, let value = fields[index + 1].int else {
                wallet.problems.append(.init(kind: .unreadable, detail: "the player hash holds what is no integer"))
                continue
            }
            if name.count == 16, CurrencyCode(rawValue: String(decoding: name, as: UTF8.self)) == nil {
                wallet.marks[name] = value
            } else {
                wallet.balances[String(decoding: name, as: UTF8.self)] = value
            }
        }
    }

    private func compareWithLedger(_ wallet: inout AuditedWallet) async throws {
        guard let player = PlayerID(rawValue: wallet.player) else {
            wallet.problems.append(.init(kind: .unreadable, detail: "not a player id"))
            return
        }
        let shown = try await ledger.wallet(of: player)
        for balance in shown.balances where balance.amount != wallet.balances[balance.currency.rawValue] ?? 0 {
            wallet.problems.append(
                .init(kind: .ledgerDisagrees, detail: "it shows \(balance.amount) \(balance.currency)"))
        }
        if Set(shown.entitlements.map(\.rawValue)) != wallet.entitlements {
            wallet.problems.append(.init(kind: .ledgerDisagrees, detail: "it shows other entitlements"))
        }
        var position = wallet.entries.count
        var cursor: Int64?
        repeat {
            let page = try await ledger.history(of: player, before: cursor)
            for item in page.items {
                guard position > 0, item.position == Int64(position),
                    item.entry?.key == wallet.entries[position - 1]?.key
                else {
                    wallet.problems.append(
                        .init(kind: .ledgerDisagrees, detail: "its history differs at position \(item.position)"))
                    return
                }
                position -= 1
            }
            cursor = page.cursor
        } while cursor != nil
        if position != 0 {
            wallet.problems.append(.init(kind: .ledgerDisagrees, detail: "its history lacks \(position) entries"))
        }
    }

    /// Who claimed these purchases; nil for nobody.
    func claims(_ keys: [String], buckets: Int) async throws -> [String?] {
        let commands: [[RedisArgument]] = keys.map { key in
            let mark = Self.mark(of: key)
            let number = mark.prefix(4).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } % UInt64(buckets)
            return ["HGET", .string("teller:claims:\(number)"), .bytes(mark)]
        }
        var owners: [String?] = []
        for reply in await redis.send(pipeline: commands) { owners.append(try reply.get().text) }
        return owners
    }
}
