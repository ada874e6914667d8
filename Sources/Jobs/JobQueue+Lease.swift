public import Redis
import ServiceRuntime

extension JobQueue {
    /// Takes up to `max` jobs: retries that are due first, then what arrived, then the list; beats the heart.
    ///
    /// Does not wait. Returns nothing while a suspect is held, and while this worker lets go of everything else in order
    /// to run one alone. Registers the worker when it is not, which also is how one that was reaped comes back: with
    /// nothing held.
    ///
    /// - Throws: ``RedisError``. Whatever a lost reply may have leased is found by ``adopt()``.
    public func lease(queue: String, max: Int) async throws(RedisError) -> [Lease] {
        try await lease(queue, max) { (keys, arguments) async throws(RedisError) in
            let start = MonotonicInstant.now
            let reply = try await self.redis.evaluate(JobScripts.lease, keys: keys, arguments: arguments)
            self.counters.observeLease(seconds: start.elapsedSeconds)
            return reply
        }
    }

    /// Waits on a connection of its own until something was pushed to the queue or half a second passed, and then does
    /// what ``lease(queue:max:)`` does; to be called when that found less than it asked for.
    ///
    /// Retries become due without a push, hence the short wait. One call for each queue at a time.
    ///
    /// - Throws: As ``lease(queue:max:)``. When the connection was lost the element that ended the wait may lie in the
    ///   shared list `arrived`, where whoever leases next finds it, or be leased already, and is then found by
    ///   ``adopt()``.
    public func leaseNext(queue: String, max: Int) async throws(RedisError) -> [Lease] {
        try Self.check(queue: queue)
        if isIsolated || drainingFor != nil {
            // What is in the list is not for this worker now: BLMOVE would bring it at once, again and again.
            try? await pause(for: .milliseconds(20))
            return try await lease(queue: queue, max: max)
        }
        let connection = try blockingConnection(for: queue)
        let names = keys.queue(queue)
        return try await lease(queue, max, waits: true) { (keys, arguments) async throws(RedisError) in
            try await connection.evaluate(
                JobScripts.lease, keys: keys, arguments: arguments, onceMovedFrom: .string(names.pending),
                to: .string(names.arrived), within: self.configuration.sweepInterval.inSeconds)
        }
    }

    private func lease(
        _ queue: String, _ max: Int, waits: Bool = false,
        _ call: @LoopActor ([RedisArgument], [RedisArgument]) async throws(RedisError) -> RedisValue
    ) async throws(RedisError) -> [Lease] {
        try Self.check(queue: queue)
        let worker = try requireWorker()
        guard max > 0, drainingFor == nil || drainingFor == queue else { return [] }
        let wanted = Int64(min(max, configuration.leaseMax))
        let numbers = nextNumber..<(nextNumber + wanted)
        nextNumber = numbers.upperBound
        reserved.append((numbers, waits))
        defer { reserved.removeAll { $0.numbers == numbers } }
        let names = keys.queue(queue)
        let scriptKeys: [RedisArgument] = [
            meta, .string(keys.workers), .string(keys.running(worker)), .string(names.retry), .string(names.arrived),
            .string(names.pending), .string(names.suspects), .string(keys.wards), .string(keys.pulse),
        ]
        let arguments: [RedisArgument] = [
            incarnationArgument, .string(worker.text), .string(queue), .int(wanted), .int(numbers.lowerBound),
            .int(configuration.leasePeriod.inMilliseconds), .int(Int64(configuration.suspectCrashes)),
        ]
        let reply: RedisValue
        do throws(RedisError) {
            do throws(RedisError) {
                reply = try await call(scriptKeys, arguments)
            } catch {
                guard error.isUnregisteredWorker else { throw error }
                try await register()
                reply = try await call(scriptKeys, arguments)
            }
        } catch {
            mustAdopt = true
            throw error
        }
        lastLeaseRoundTrip = .now
        return try await accept(reply, queue: queue)
    }

    private func accept(_ reply: RedisValue, queue: String) async throws(RedisError) -> [Lease] {
        guard let parts = reply.elements, parts.count == 3, let now = parts[0].int, let mode = parts[1].text,
            let pairs = parts[2].elements
        else { throw RedisError(.protocolError, "lease: unexpected answer") }
        serverTold(now)
        isIsolated = mode != "normal"
        if mode == "drain" {
            drainingFor = queue
        } else if drainingFor == queue {
            drainingFor = nil
        }
        let leases = try await hold(pairs, leasedAt: now)
        counters.count(.leased, queue, by: leases.count)
        return leases
    }

    /// Takes note of `[lease id, entry, …]` as held, and buries what has no readable header.
    func hold(_ pairs: [RedisValue], leasedAt now: Int64) async throws(RedisError) -> [Lease] {
        var leases: [Lease] = []
        var unreadable: [Lease] = []
        leases.reserveCapacity(pairs.count / 2)
        let leasedAt = (redis: UnixMilliseconds(now), here: MonotonicInstant.now)
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let id = pairs[index].text, let number = Lease.number(of: id), let entry = pairs[index + 1].bytes
            else {
                continue
            }
            let queue = Lease.queue(of: id)
            held[number] = false
            if let lease = Lease(id: id, queue: queue, entry: entry, leasedAt: leasedAt) {
                leases.append(lease)
            } else {
                unreadable.append(Lease(unreadable: id, number: number, queue: queue, entry: entry, leasedAt: leasedAt))
            }
        }
        for lease in unreadable {
            logger.warning("job buried: header unreadable", ["queue": .string(lease.queue)])
            // Not worth losing the others: what cannot be buried now is adopted, and tried again, later.
            _ = try? await bury(lease, reasons: ["unreadable-header"], status: nil, isMalformed: true)
        }
        return leases
    }

    /// Gives a bare job (one that another program pushed) its submission, and its first status with it; or a job that came
    /// under another submission its own.
    ///
    /// The status is sent, not waited for (`SET … NX EX`: it hides no other status). Should it get lost, the next
    /// transition writes one. The submission is remembered by this worker, and written down when the job is retried; of
    /// a job that was in a crashed worker, or has another in its header, it is written down now, so that its client hears
    /// of it should it be buried.
    ///
    /// - Returns: The lease under its submission.
    public func identify(
        _ lease: Lease, as submission: String, pendingStatus: [UInt8]
    ) async throws(RedisError) -> Lease {
        try Self.check(submission: submission)
        try Self.check(status: pendingStatus)
        redis.post([
            "SET", .string(keys.status(submission)), .bytes(pendingStatus), "NX", "EX",
            .int(configuration.statusLifetime.inMilliseconds / 1000),
        ])
        if lease.crashes > 0 || lease.submission != nil {
            _ = try await redis.evaluate(
                JobScripts.identify, keys: [meta, .string(keys.running(try requireWorker()))],
                arguments: [incarnationArgument, .string(lease.id), .string(submission)], idempotent: true)
        }
        return Lease(lease, submission: submission)
    }

    func requireWorker() throws(RedisError) -> WorkerID {
        guard let worker else { throw RedisError(.refused, "this queue was opened without a worker") }
        return worker
    }
}
