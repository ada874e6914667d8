public import Redis
import ServiceRuntime

/// A job that follows from a settled one, such as acknowledging a purchase at its store.
public struct FollowUp: Sendable, Equatable {
    /// The queue it goes to.
    public let queue: String
    /// The job, opaque to the queue.
    ///
    /// It may be delivered more than once.
    public let payload: [UInt8]

    /// Names the queue and the job.
    public init(queue: String, payload: [UInt8]) {
        self.queue = queue
        self.payload = payload
    }
}

extension JobQueue {
    /// Ends a lease: writes the final status, queues the follow-ups, and publishes the submission, in one script.
    ///
    /// A status "credited" is written even when the lease was lost, and nothing else ever replaces it; any other is
    /// written only by the holder. Follow-ups are queued by the holder, or by whoever first says "credited".
    ///
    /// `status` is JSON whose first member is `"state"`; nil for a job without submission.
    ///
    /// - Returns: Whether the lease was still this worker's.
    /// - Throws: ``RedisError``, after ``Configuration/transitionPatience`` for one that is retryable. The lease is then
    ///   given up; ``adopt()`` returns it later when it was not settled after all.
    public func settle(
        _ lease: Lease, status: [UInt8]?, followUps: [FollowUp] = []
    ) async throws(RedisError) -> Bool {
        let (statusKey, status) = try statusParts(lease, status)
        let packed = try Self.pack(followUps)
        let answer = try await transition(lease) { () async throws(RedisError) in
            try await self.batches.settle.call(
                keys: [statusKey],
                arguments: [.string(lease.id), .string(lease.submission ?? "-"), status, .bytes(packed)])
        }
        return finished(lease, answer.int == 1, .settled)
    }

    /// Puts a job aside for `delay`, counted by Redis' clock; one attempt more stands in its header then.
    ///
    /// The delay should be jittered already. `status` is JSON whose first member is `"state"`, usually pending; nil
    /// leaves the status alone. With `isNews` it is published: there is more to do, but who waits will not want to wait
    /// for it.
    ///
    /// - Returns: Whether the lease was still this worker's; if not, nothing was changed.
    /// - Throws: As ``settle(_:status:followUps:)``.
    public func retry(
        _ lease: Lease, after delay: Duration, status: [UInt8]?, isNews: Bool = false
    ) async throws(RedisError) -> Bool {
        let (statusKey, status) = try statusParts(lease, status)
        let retries = RedisArgument.string(keys.queue(lease.queue).retry)
        let milliseconds = max(0, delay.inMilliseconds)
        let answer = try await transition(lease) { () async throws(RedisError) in
            try await self.batches.retry.call(
                keys: [retries, statusKey],
                arguments: [
                    .string(lease.id), .string(lease.submission ?? "-"), .int(milliseconds), status, isNews ? "1" : "",
                ])
        }
        return finished(lease, answer.int == 1, .retried)
    }

    /// Moves a job to the dead letters.
    ///
    /// `reasons` are slugs and short texts for people, never parts of a receipt. Of a malformed job only the first
    /// 4 KiB are kept, and the digest of all: it may be anything, of any size. Malformed is what another program pushed
    /// and nobody here ever read, not what a newer version may have written. Without a `status` a submission that is
    /// pending becomes dead.
    ///
    /// - Returns: The id among the dead; nil when the lease was not this worker's any more (nothing was changed).
    /// - Throws: As ``settle(_:status:followUps:)``.
    public func bury(
        _ lease: Lease, reasons: [String], status: [UInt8]?, isMalformed: Bool = false
    ) async throws(RedisError) -> String? {
        let (statusKey, status) = try statusParts(lease, status)
        var writer = JSONWriter()
        writer.array { for reason in reasons { $0.element(reason) } }
        let list = writer.bytes
        let keep: RedisArgument = isMalformed ? .int(Int64(configuration.malformedBytesMax)) : ""
        let answer = try await transition(lease) { () async throws(RedisError) in
            try await self.batches.bury.call(
                keys: [statusKey],
                arguments: [
                    .string(lease.id), .string(lease.submission ?? "-"), keep, .bytes(list), status,
                ])
        }
        let id = answer.text ?? ""
        return finished(lease, !id.isEmpty, .buried) ? id : nil
    }

    /// Gives a job back unfinished, to the front of the line and as it was: for an ordered stop.
    ///
    /// - Returns: Whether the lease was still this worker's.
    public func release(_ lease: Lease) async throws(RedisError) -> Bool {
        let names = keys.queue(lease.queue)
        let answer = try await transition(lease) { () async throws(RedisError) in
            try await self.batches.release.call(
                keys: [.string(lease.isAlone ? names.suspects : names.pending)], arguments: [.string(lease.id)])
        }
        return finished(lease, answer.int == 1, .released)
    }

    // MARK: - Parts

    /// Sends a transition until Redis has answered it, or the patience is at its end.
    ///
    /// Sending it again is harmless: a lease number is used once, so the second time finds the lease gone and changes
    /// nothing (a repeated "credited" writes the same fact).
    func transition(
        _ lease: Lease, _ send: @LoopActor () async throws(RedisError) -> RedisValue
    ) async throws(RedisError) -> RedisValue {
        let start = MonotonicInstant.now
        var ceiling = Duration.milliseconds(50)
        if held[lease.number] != nil { held[lease.number] = true }
        while true {
            do throws(RedisError) {
                return try await send()
            } catch {
                guard error.isRetryable, start.elapsed < configuration.transitionPatience, !Task.isCancelled else {
                    // Given up: what is still under this number in the running hash is adopted and begun anew.
                    forget(lease)
                    mustAdopt = true
                    throw error
                }
                // Full jitter: after an outage thousands of transitions must not come at once.
                try? await pause(for: ceiling * Double.random(in: 0...1))
                ceiling = min(ceiling * 2, .seconds(1))
            }
        }
    }

    func forget(_ lease: Lease) { held[lease.number] = nil }

    private func finished(_ lease: Lease, _ wasMine: Bool, _ event: JobCounters.Event) -> Bool {
        forget(lease)
        counters.count(wasMine ? event : .fenced, lease.queue)
        return wasMine
    }

    private func statusParts(
        _ lease: Lease, _ status: [UInt8]?
    ) throws(RedisError) -> (key: RedisArgument, value: RedisArgument) {
        guard let status else { return (.string(keys.status(lease.submission ?? "-")), "") }
        guard let submission = lease.submission else {
            throw RedisError(.refused, "a job without submission has no status")
        }
        try Self.check(status: status)
        return (.string(keys.status(submission)), .bytes(status))
    }

    private static func pack(_ followUps: [FollowUp]) throws(RedisError) -> [UInt8] {
        var bytes: [UInt8] = []
        for followUp in followUps {
            try check(queue: followUp.queue)
            bytes.append(contentsOf: "\(followUp.queue) \(followUp.payload.count)\n".utf8)
            bytes.append(contentsOf: followUp.payload)
        }
        return bytes
    }
}
