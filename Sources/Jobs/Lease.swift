public import ServiceRuntime

/// A job that this worker holds, until it settles, retries, buries or releases it, or is taken for dead.
///
/// Holding it is no guarantee of being alone with it (a frozen worker wakes up later than its lease), so every effect must
/// be idempotent; the transitions of ``JobQueue`` say whether the lease was still held.
public final class Lease: Sendable, Identifiable {
    /// Unique within the worker: `<queue>:<number>`, or with `!` for a suspect that is leased alone.
    public let id: String
    /// The queue it came from and goes back to.
    public let queue: String
    /// The job as it was pushed; opaque to the queue.
    public let payload: [UInt8]
    /// The submission it belongs to, whose status the transitions write.
    ///
    /// Nil for a bare job (see ``JobQueue/identify(_:as:pendingStatus:)``) and for follow-ups.
    public let submission: String?
    /// How often it went to retry before.
    public let attempts: Int
    /// When it was first seen, by Redis' clock; for a bare job when it was leased for the first time by a worker that
    /// lived to write it down.
    public let firstSeen: UnixMilliseconds
    /// How many workers ended while they held it.
    public let crashes: Int

    let number: Int64
    /// When it was leased, by Redis' clock and by this process's.
    private let leasedAt: (redis: UnixMilliseconds, here: MonotonicInstant)

    /// How long ago it was first seen; by Redis' clock, so that a worker whose own is wrong does not bury what is new.
    public var age: Duration { leasedAt.redis - firstSeen + leasedAt.here.elapsed }

    /// Whether it is a suspect, leased with nothing beside it.
    public var isAlone: Bool { id.utf8.contains(UInt8(ascii: "!")) }

    init?(id: String, queue: String, entry: [UInt8], leasedAt: (redis: UnixMilliseconds, here: MonotonicInstant)) {
        guard let number = Self.number(of: id), let header = JobEntry(entry) else { return nil }
        self.id = id
        self.queue = queue
        self.number = number
        submission = header.submission
        attempts = header.attempts
        self.leasedAt = leasedAt
        firstSeen = header.firstSeenMs.map { UnixMilliseconds($0) } ?? leasedAt.redis
        crashes = header.crashes
        payload = header.payloadOffset == 0 ? entry : Array(entry[header.payloadOffset...])
    }

    /// A lease whose entry cannot be read, just to bury it.
    init(
        unreadable id: String, number: Int64, queue: String, entry: [UInt8],
        leasedAt: (redis: UnixMilliseconds, here: MonotonicInstant)
    ) {
        self.id = id
        self.number = number
        self.queue = queue
        payload = entry
        submission = nil
        attempts = 0
        firstSeen = leasedAt.redis
        self.leasedAt = leasedAt
        crashes = 0
    }

    /// The same lease, of a job whose submission became known.
    init(_ lease: Lease, submission: String) {
        id = lease.id
        queue = lease.queue
        number = lease.number
        payload = lease.payload
        self.submission = submission
        attempts = lease.attempts
        firstSeen = lease.firstSeen
        crashes = lease.crashes
        leasedAt = lease.leasedAt
    }

    static func number(of id: String) -> Int64? {
        let bytes = id.utf8
        guard let mark = bytes.lastIndex(where: { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "!") }) else {
            return nil
        }
        return Int64(id[bytes.index(after: mark)...])
    }

    static func queue(of id: String) -> String {
        // By bytes: looking for a character would look for the bounds of each.
        String(id.utf8.prefix { $0 != UInt8(ascii: ":") && $0 != UInt8(ascii: "!") }) ?? id
    }
}
