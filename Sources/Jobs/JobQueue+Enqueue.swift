public import Redis
import ServiceRuntime

/// What became of a submission that was to be enqueued.
public enum EnqueueOutcome: Sendable, Equatable {
    /// It is in the list, and its status is the pending one that was given.
    case enqueued
    /// It was credited before; the status tells how. Nothing was pushed.
    case alreadyCredited(status: [UInt8])
    /// It is in the queue and was seen alive a moment ago, or waits for its retry. Nothing was pushed.
    case alreadyPending(status: [UInt8])
    /// It has another final status that is too young to be looked at again. Nothing was pushed.
    case recentlyDecided(status: [UInt8])
    /// The list is at its limit. Nothing was changed.
    case full
}

extension JobQueue {
    /// Puts a submission into a queue, unless it is there already or was decided; reads the status, pushes and writes the
    /// pending status in one script.
    ///
    /// Calling it again for the same submission, also after an error that leaves open whether it was applied, is safe.
    /// `submission` is at most 128 bytes of `[A-Za-z0-9._:-]`; `pendingStatus` is JSON whose first member is
    /// `"state":"pending"`.
    ///
    /// - Returns: Whether it was pushed, and if not, the status it has.
    /// - Throws: ``RedisError``; `outOfMemory` when Redis is full (nothing was pushed).
    public func enqueue(
        _ payload: [UInt8], queue: String, submission: String, pendingStatus: [UInt8]
    ) async throws(RedisError) -> EnqueueOutcome {
        try Self.check(queue: queue)
        try Self.check(submission: submission)
        try Self.check(status: pendingStatus)
        let entry = JobEntry.first(submission: submission, firstSeenMs: try await serverNow(), payload: payload)
        let answer = try await batches.enqueue.call(
            keys: [.string(keys.status(submission)), .string(keys.pendingPrefix + queue)],
            arguments: [.int(Int64(configuration.pendingMax)), .bytes(pendingStatus), .bytes(entry)])
        switch answer {
        case .integer(0):
            counters.count(.refused, queue)
            return .full
        case .integer(let now):
            serverTold(now)
            counters.count(.enqueued, queue)
            return .enqueued
        case .array(let parts):
            guard parts.count == 2, let status = parts[1].bytes else { break }
            switch parts[0].text {
            case "credited": return .alreadyCredited(status: status)
            case "pending": return .alreadyPending(status: status)
            case "recent": return .recentlyDecided(status: status)
            default: break
            }
        default: break
        }
        throw RedisError(.protocolError, "enqueue: unexpected answer")
    }

    // MARK: - Checks before sending

    private static let statusStart = Array(#"{"state":""#.utf8)

    /// The scripts read a status by its beginning, so one that begins otherwise must never get in.
    static func check(status: [UInt8]) throws(RedisError) {
        guard status.starts(with: statusStart) else {
            throw RedisError(.refused, "the first member of a status must be \"state\"")
        }
    }

    static func check(submission: String) throws(RedisError) {
        guard JobName.isValid(submission) else { throw RedisError(.refused, "not a submission id") }
    }

    static func check(queue: String) throws(RedisError) {
        guard JobName.isValidQueue(queue) else { throw RedisError(.refused, "not a queue name") }
    }
}
