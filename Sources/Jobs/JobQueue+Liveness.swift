public import Redis
import ServiceRuntime

/// What one sweep took from dead workers.
public struct ReapReport: Sendable, Equatable {
    /// Jobs back at the front of their lists.
    public var toPending = 0
    /// Jobs that were in too many crashed workers and will be leased alone.
    public var toSuspects = 0
    /// Jobs that ended every worker that held them alone.
    public var buried = 0
    /// Jobs that could not be moved (a key of the wrong type in their way); they stay where they are.
    public var failed = 0
    /// Workers whose names are gone.
    public var workersRemoved = 0
    /// True when heartbeats have not gone through for long enough to judge others.
    public var isTooEarly = false

    /// Nothing reaped.
    public init() {}
}

extension JobQueue {
    /// Keeps this worker alive in the eyes of the others, until the task is cancelled.
    ///
    /// It also adopts what was leased for it without its knowledge, and reaps the dead. To run beside the work, in the same task group.
    ///
    /// - Parameter adopted: Gets leases that this worker holds and did not know of; they are to be worked on like any other.
    /// - Throws: ``RedisError/isWrongIncarnation`` only; everything else is tried again at the next tick.
    public func maintain(adopted: @escaping @LoopActor ([Lease]) async -> Void) async throws(RedisError) {
        let failure = await withTaskGroup(of: RedisError?.self) { group in
            // A task of its own: however long a sweep takes, the next heartbeat is not late for it.
            group.addTask { @LoopActor @Sendable in
                await self.every(self.configuration.heartbeatInterval) { () async throws(RedisError) in
                    try await self.heartbeat()
                }
            }
            group.addTask { @LoopActor @Sendable in
                var nextAdoption = MonotonicInstant.now
                return await self.every(self.configuration.sweepInterval) { () async throws(RedisError) in
                    if self.mustAdopt || nextAdoption <= .now {
                        let leases = try await self.adopt()
                        nextAdoption = MonotonicInstant.now + .seconds(10)
                        if !leases.isEmpty { await adopted(leases) }
                    }
                    _ = try await self.sweep()
                }
            }
            let failure = await group.next() ?? nil
            group.cancelAll()
            return failure
        }
        if let failure { throw failure }
    }

    /// Takes a step at each tick until the task is cancelled, or the step finds that this is another Redis.
    private func every(
        _ interval: Duration, _ step: @LoopActor () async throws(RedisError) -> Void
    ) async -> RedisError? {
        var isFailing = false
        while !Task.isCancelled {
            let start = MonotonicInstant.now
            do throws(RedisError) {
                try await step()
                isFailing = false
            } catch {
                if error.isWrongIncarnation { return error }
                // Once per outage: a worker that can never reap, for want of a right, must not go unnoticed.
                if !isFailing { logger.warning("queue maintenance failed", ["error": .string("\(error)")]) }
                isFailing = true
            }
            try? await pause(for: max(interval - start.elapsed, .milliseconds(1)))
        }
        return nil
    }

    /// Makes this worker's name known, holding nothing; ``lease(queue:max:)`` and ``heartbeat()`` do it when needed.
    public func register() async throws(RedisError) {
        let worker = try requireWorker()
        let lost = held.count
        held = [:]
        drainingFor = nil
        isIsolated = false
        if lost > 0 {
            logger.warning("worker was taken for dead", ["lost": .count(lost)])
            counters.count(.fenced, "all", by: lost)
        }
        mustAdopt = true
        _ = try await beat(worker, isNew: true)
    }

    /// Says that this worker is alive; to be called every ``Configuration/heartbeatInterval``.
    ///
    /// A worker that was reaped meanwhile is registered anew and holds nothing any more.
    public func heartbeat() async throws(RedisError) {
        let worker = try requireWorker()
        let known = held.count + reserved.reduce(0) { $0 + ($1.waits ? 0 : $1.numbers.count) }
        do throws(RedisError) {
            // Commands are answered in order: what is in the hash was known when the heartbeat was sent, or is unknown; or it
            // is on its way over the connection of a wait, and `adopt` leaves it alone.
            if try await beat(worker, isNew: false) > known { mustAdopt = true }
        } catch {
            // After the good-bye there is no name to beat for, and registering would bring it back.
            guard error.isUnregisteredWorker, !hasLeft else { throw error }
            try await register()
        }
    }

    /// Carries on the pulse.
    ///
    /// - Returns: How many leases stand in the running hash.
    func beat(_ worker: WorkerID, isNew: Bool) async throws(RedisError) -> Int64 {
        let reply: RedisValue
        do throws(RedisError) {
            reply = try await redis.evaluate(
                JobScripts.heartbeat,
                keys: [meta, .string(keys.workers), .string(keys.running(worker)), .string(keys.pulse)],
                arguments: [
                    incarnationArgument, .string(worker.text), .int(configuration.pulsePauseMax.inMilliseconds),
                    isNew ? "new" : "",
                ])
        } catch {
            lastBeatMs = nil
            throw error
        }
        guard let parts = reply.elements, parts.count == 2, let now = parts[0].int, let running = parts[1].int else {
            throw RedisError(.protocolError, "heartbeat: unexpected answer")
        }
        serverTold(now)
        lastBeatMs = now
        return running
    }

    /// Returns the leases that stand in this worker's running hash without its knowledge.
    ///
    /// Their replies were lost, or their transitions were given up. It also forgets those that it believed to hold and that are gone.
    public func adopt() async throws(RedisError) -> [Lease] {
        let worker = try requireWorker()
        guard !isAdopting else { return [] }
        isAdopting = true
        defer { isAdopting = false }
        mustAdopt = false
        let running = RedisArgument.string(keys.running(worker))
        let believed = held.filter { !$0.value }.keys
        do throws(RedisError) {
            let ids = try await redis.send(["HKEYS", running], idempotent: true).elements ?? []
            var present: Set<Int64> = []
            var unknown: [RedisValue] = []
            for id in ids {
                guard let number = id.text.flatMap(Lease.number(of:)) else { continue }
                present.insert(number)
                if held[number] == nil, !reserved.contains(where: { $0.numbers.contains(number) }) {
                    unknown.append(id)
                }
            }
            forgetLost(believed.filter { !present.contains($0) })
            return try await fetch(unknown, running)
        } catch {
            mustAdopt = true
            throw error
        }
    }

    private func forgetLost(_ numbers: [Int64]) {
        let lost = numbers.filter { held[$0] == false }
        for number in lost { held[number] = nil }
        if !lost.isEmpty { logger.warning("leases lost while alive", ["count": .count(lost.count)]) }
    }

    private func fetch(_ ids: [RedisValue], _ running: RedisArgument) async throws(RedisError) -> [Lease] {
        var leases: [Lease] = []
        for start in stride(from: 0, to: ids.count, by: configuration.leaseMax) {
            let chunk = ids[start..<min(start + configuration.leaseMax, ids.count)]
            let entries =
                try await redis.send(["HMGET", running] + chunk.map { .bytes($0.bytes ?? []) }, idempotent: true)
                .elements
                ?? []
            var pairs: [RedisValue] = []
            // A transition that was on its way when the ids were read has emptied its field by now.
            for (id, entry) in zip(chunk, entries) where !entry.isNull { pairs += [id, entry] }
            leases += try await hold(pairs, leasedAt: try await serverNow())
        }
        for lease in leases { counters.count(.adopted, lease.queue) }
        if !leases.isEmpty { logger.notice("leases adopted", ["count": .count(leases.count)]) }
        return leases
    }

    /// Whether this worker still believes to hold the lease; false once it was found gone.
    public func holds(_ lease: Lease) -> Bool { held[lease.number] != nil }

    // MARK: - Others

    /// Sweeps once: takes the jobs of workers whose heartbeat is older than a lease, at most 100 in a call.
    ///
    /// Nothing can tell a dead worker from one that is silent because Redis was away: after an outage every heartbeat is
    /// old, and the first worker back would reap all others. So all workers share a *pulse* in Redis, which tells since when
    /// heartbeats have come without a pause of ``Configuration/pulsePauseMax``, and nobody is reaped before it is a whole
    /// lease old: whoever is alive had that long to speak. It is the workers' together and not each one's own, so a
    /// worker that has just started may reap at once when others have kept it up, and one whose own way to Redis is bad
    /// neither breaks it for the others nor judges by it (its last heartbeat is too old, or it is itself the dead one).
    /// A restart of Redis, a reload of its file, a failover and a jump of its clock are pauses like any other. What is left
    /// is a worker that is slow by itself; that one is reaped while it lives, and its leases are fenced.
    public func sweep() async throws(RedisError) -> ReapReport {
        let worker = try requireWorker()
        var report = ReapReport()
        var passedOver: Int64 = 0
        // 100 calls of 100 jobs: what is left then waits for the next tick, so that heartbeats are not late.
        for _ in 0..<100 {
            guard let lastBeatMs else {
                report.isTooEarly = true
                return report
            }
            let reply = try await redis.evaluate(
                JobScripts.reap,
                keys: [
                    meta, .string(keys.workers), .string(keys.dead), .string(keys.deadIndex), .string(keys.pulse),
                ],
                arguments: reapArguments(worker, lastBeatMs, passedOver))
            guard let parts = reply.elements, let what = parts.first?.text else {
                throw RedisError(.protocolError, "reap: unexpected answer")
            }
            guard what == "reaped", parts.count == 7 else {
                report.isTooEarly = what == "wait"
                return report
            }
            let counts = parts[2...].map { Int($0.int ?? 0) }
            note(counts, of: parts[1].text ?? "", in: &report)
            // No progress with this one (something is in its jobs' way): the next dead worker must not wait for it.
            if counts[0] + counts[1] + counts[2] + counts[4] == 0 { passedOver += 1 }
        }
        return report
    }

    private func reapArguments(_ worker: WorkerID, _ lastBeatMs: Int64, _ passedOver: Int64) -> [RedisArgument] {
        [
            incarnationArgument, .string(worker.text), .int(configuration.leasePeriod.inMilliseconds),
            .int(configuration.pulsePauseMax.inMilliseconds), .int(lastBeatMs),
            .int(Int64(configuration.reapMax)), .int(passedOver), .string(keys.prefix),
            .int(Int64(configuration.suspectCrashes)), .int(Int64(configuration.fatalCrashes)),
            .string(keys.settledChannel), .int(configuration.statusLifetime.inMilliseconds / 1000),
        ]
    }

    private func note(_ counts: [Int], of worker: String, in report: inout ReapReport) {
        report.toPending += counts[0]
        report.toSuspects += counts[1]
        report.buried += counts[2]
        report.failed += counts[3]
        report.workersRemoved += counts[4]
        counters.count(.reaped, "all", by: counts[0] + counts[1] + counts[2])
        logger.warning(
            "dead worker reaped",
            [
                "worker": .string(worker), "pending": .count(counts[0]), "suspects": .count(counts[1]),
                "buried": .count(counts[2]), "failed": .count(counts[3]), "nameRemoved": .bool(counts[4] == 1),
            ])
    }

    /// Takes this worker's name off the register, at its ordered end.
    ///
    /// - Returns: False when it still holds leases: then the name stays, and others reap them.
    public func leave() async throws(RedisError) -> Bool {
        hasLeft = true
        let worker = try requireWorker()
        let reply = try await redis.evaluate(
            JobScripts.leave, keys: [meta, .string(keys.workers), .string(keys.running(worker))],
            arguments: [incarnationArgument, .string(worker.text)], idempotent: true)
        return reply.int == 0
    }
}
