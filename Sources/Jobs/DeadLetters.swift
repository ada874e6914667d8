public import Redis
public import ServiceRuntime

/// A job that nobody will work on again by itself: why, since when, and the job as it was.
public struct DeadLetter: Sendable, Equatable {
    /// Its name among the dead; ordered by time.
    public let id: String
    /// The queue it came from and is replayed to.
    public let queue: String
    /// The submission it belongs to, if that was known.
    public let submission: String?
    /// When it was buried, by Redis' clock.
    public let buriedAt: UnixMilliseconds
    /// When it was first seen; for a bare job that was never retried the time it was buried.
    public let firstSeen: UnixMilliseconds
    /// Its history: how often it was put to retry, and how many workers it saw end, also while it was leased alone.
    public let attempts: Int
    /// Workers that ended while they held it.
    public let crashes: Int
    /// Workers that ended while they held nothing else.
    public let aloneCrashes: Int
    /// Why it was buried.
    public let reasons: [String]
    /// SHA-1 of the whole entry, header included.
    public let sha1: String
    /// Size of the whole entry.
    public let entryBytes: Int
    /// The job, or its first 4 KiB when it was malformed and longer.
    public let payload: [UInt8]
    /// Whether only its beginning was kept, so that it cannot be replayed.
    public let isTruncated: Bool
    /// Whether another program pushed it and no worker could read it.
    ///
    /// There may be a purchase in it all the same, of which only its sender knows.
    public let isMalformed: Bool

    init?(_ record: [UInt8]) {
        guard let feed = record.firstIndex(of: UInt8(ascii: "\n")),
            let line = try? JSONView.parse(Array(record[..<feed]))
        else { return nil }
        do throws(JSONError) {
            id = try line.string("id")
            queue = try line.string("queue")
            let name = try line.string("submission")
            submission = name == "-" ? nil : name
            buriedAt = UnixMilliseconds(try line.int64("buriedAtMs"))
            firstSeen = UnixMilliseconds(try line.int64("firstSeenMs"))
            attempts = Int(try line.int64("attempts"))
            crashes = Int(try line.int64("crashes"))
            aloneCrashes = Int(try line.int64("aloneCrashes"))
            entryBytes = Int(try line.int64("entryBytes"))
            sha1 = try line.string("sha1")
            var texts: [String] = []
            for reason in try line.elements("reasons") { texts.append(try reason.string()) }
            reasons = texts
            isTruncated = try line.int64("keptBytes") < Int64(entryBytes)
            isMalformed = try line.optionalBool("malformed") ?? isTruncated
        } catch {
            return nil
        }
        let entry = Array(record[(feed + 1)...])
        payload = JobEntry(entry).map { Array(entry[$0.payloadOffset...]) } ?? entry
    }
}

/// What a replay did.
public enum ReplayOutcome: String, Sendable {
    /// It is at the end of its list again, with no attempts and no crashes on its account.
    case replayed
    /// There is no such dead letter.
    case missing
    /// Only its beginning was kept; the sender has to send it again.
    case truncated
    /// Its record was changed by hand, or is not one of ours.
    case changed
}

/// What a drop did.
public enum DropOutcome: Sendable, Equatable {
    /// It is gone; what it was, without the job. Nil when its record could not be read.
    case dropped(DeadLetter?)
    /// It is not malformed, or of a known submission, so it may be a purchase that was paid; nothing was changed.
    case kept
    /// There is no such dead letter.
    case missing
}

extension JobQueue {
    /// Most dead letters in one page.
    public static let deadPageMax = 100
    private static let idsPageMax = 1000

    /// How many dead letters there are.
    public func deadCount() async throws(RedisError) -> Int {
        Int(try await redis.send(["ZCARD", .string(keys.deadIndex)], idempotent: true).int ?? 0)
    }

    /// Dead letters, newest first; `offset` of them passed over, at most ``deadPageMax``.
    public func deadLetters(offset: Int = 0, limit: Int = deadPageMax) async throws(RedisError) -> [DeadLetter] {
        let first = Int64(max(0, offset))
        let last = first + Int64(max(1, min(limit, Self.deadPageMax))) - 1
        let ids =
            try await redis.send(["ZREVRANGE", .string(keys.deadIndex), .int(first), .int(last)], idempotent: true)
            .elements
            ?? []
        guard !ids.isEmpty else { return [] }
        let records =
            try await redis.send(["HMGET", .string(keys.dead)] + ids.map { .bytes($0.bytes ?? []) }, idempotent: true)
            .elements ?? []
        return records.compactMap { $0.bytes.flatMap { DeadLetter($0) } }
    }

    /// The ids of all dead letters there are now, oldest first; also those whose records cannot be read.
    public func deadIDs() async throws(RedisError) -> [String] {
        var ids: [String] = []
        var offset = 0
        while true {
            let (first, last) = (Int64(offset), Int64(offset + Self.idsPageMax - 1))
            let page =
                try await redis.send(["ZRANGE", .string(keys.deadIndex), .int(first), .int(last)], idempotent: true)
                .elements ?? []
            ids += page.compactMap(\.text)
            offset += page.count
            guard page.count == Self.idsPageMax else { return ids }
        }
    }

    /// One dead letter; nil when there is none of that id, or it cannot be read.
    public func deadLetter(_ id: String) async throws(RedisError) -> DeadLetter? {
        try await redis.send(["HGET", .string(keys.dead), .string(id)], idempotent: true).bytes.flatMap {
            DeadLetter($0)
        }
    }

    /// Puts a dead letter back into its queue and removes it from the dead, in one script.
    public func replay(_ id: String) async throws(RedisError) -> ReplayOutcome {
        let record = try await redis.send(["HGET", .string(keys.dead), .string(id)], idempotent: true).bytes
        guard let record else { return .missing }
        guard let letter = DeadLetter(record) else { return .changed }
        let submission = letter.submission ?? "-"
        let answer = try await redis.evaluate(
            JobScripts.replay,
            keys: [
                meta, .string(keys.dead), .string(keys.deadIndex), .string(keys.pendingPrefix + letter.queue),
                .string(keys.status(submission)),
            ],
            arguments: [
                incarnationArgument, .string(id), .string(letter.queue), .string(submission),
                .int(configuration.statusLifetime.inMilliseconds / 1000),
            ])
        return answer.text.flatMap(ReplayOutcome.init(rawValue:)) ?? .changed
    }

    /// Forgets a dead letter for good, in one script; only when forced to if it is not malformed, or has a submission.
    public func drop(_ id: String, force: Bool = false) async throws(RedisError) -> DropOutcome {
        let answer = try await redis.evaluate(
            JobScripts.drop, keys: [meta, .string(keys.dead), .string(keys.deadIndex)],
            arguments: [incarnationArgument, .string(id), force ? "force" : ""]
        ).elements
        switch answer?.first?.text {
        case "dropped": return .dropped((answer?.last?.bytes).flatMap { DeadLetter($0 + [UInt8(ascii: "\n")]) })
        case "kept": return .kept
        default: return .missing
        }
    }
}
