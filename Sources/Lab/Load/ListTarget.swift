import Redis
import ServiceRuntime

/// Hands receipts in as any program may: LPUSH onto the pending list, then the status key tells, and a message on the
/// channel says when to look.
@LoopActor
final class ListTarget: LoadTarget {
    /// Messages get lost while the connection is down, so nobody relies on them alone.
    private static let lookAgainAfter: Duration = .seconds(2)

    /// Redis reads 16 kB of a connection in each turn of its loop, and with `appendfsync always` a turn that writes waits
    /// for the disk: receipts of 6 kB came in at 2,100 a second over one connection, and at 12,300 over eight.
    private static let connections = 8

    private let redis: [RedisConnection]
    private var nextConnection = 0
    private let waits: Bool
    private var subscriber: RedisSubscriber?
    private var waiting: [String: [ObjectIdentifier: Completion<Void>]] = [:]

    init(_ plan: LoadPlan) throws(LabError) {
        let configuration = try plan.redis.configuration()
        redis = (0..<Self.connections).map { _ in
            RedisConnection(configuration, logger: .disabled, metrics: nil)
        }
        waits = plan.waitsForAnswers
        guard waits else { return }
        subscriber = RedisSubscriber(
            configuration, logger: .disabled, metrics: nil, channels: ["teller:{0}:settled"],
            onMessage: { [weak self] _, ids in self?.settled(ids) },
            onResubscribed: { [weak self] in self?.wakeAll() })
    }

    func start() async throws {
        subscriber?.start()
        for connection in redis { connection.start() }
        for connection in redis { try await connection.ready(within: .seconds(10)) }
    }

    func stop() async {
        await subscriber?.stop()
        for connection in redis { await connection.stop() }
    }

    func deliver(_ submission: Submission, until deadline: MonotonicInstant, notes: DeliveryNotes) async -> FinalAnswer
    {
        if let last = await push(submission, until: deadline, notes: notes) {
            return .gaveUp(last: last, wasAccepted: false)
        }
        guard waits else { return .pushed }
        let id = submission.id
        let settled = Completion<Void>()
        waiting[id, default: [:]][ObjectIdentifier(settled)] = settled
        var current = settled
        defer { forget(current, id) }
        while true {
            if let answer = await look(id) { return answer }
            guard MonotonicInstant.now < deadline else { return .gaveUp(last: "pending", wasAccepted: true) }
            let wakeUp = current
            let timer = EventLoop.shared.timer(after: Self.lookAgainAfter) { wakeUp.complete(()) }
            await wakeUp.wait()
            timer.cancel()
            forget(wakeUp, id)
            current = Completion<Void>()
            waiting[id, default: [:]][ObjectIdentifier(current)] = current
        }
    }

    /// Pushes until Redis said that it was; nil then, else what the last try ended with.
    ///
    /// A push whose reply was lost is made again: twice on the list is once in the wallet.
    private func push(
        _ submission: Submission, until deadline: MonotonicInstant, notes: DeliveryNotes
    ) async -> String? {
        let key = RedisArgument.string("teller:{0}:pending:\(submission.purchase.store)")
        let job = RedisArgument.bytes(submission.body)
        var failures = 0
        while true {
            notes.attempts += 1
            do throws(RedisError) {
                _ = try await connection().send(["LPUSH", key, job])
                return nil
            } catch {
                failures += 1
                let cause = "redis \(error.kind)"
                notes.retry(because: cause)
                let delay = backoff(afterFailures: failures)
                guard MonotonicInstant.now + delay < deadline, (try? await pause(for: delay)) != nil else {
                    return cause
                }
            }
        }
    }

    private func connection() -> RedisConnection {
        nextConnection = (nextConnection + 1) % redis.count
        return redis[nextConnection]
    }

    private func look(_ id: String) async -> FinalAnswer? {
        guard
            let bytes = try? await connection().send(["GET", .string("teller:{0}:status:\(id)")], idempotent: true)
                .bytes,
            let view = try? JSONView.parse(bytes), let state = try? view.string("state")
        else { return nil }
        switch state {
        case "credited":
            let credits = (try? view.elements("credits")) ?? []
            let isOld = !credits.isEmpty && credits.allSatisfy { (try? $0.optionalBool("already")) == true }
            return .credited(alreadyProcessed: isOld)
        case "rejected": return .refused(reason: (try? view.string("reason")) ?? "rejected")
        case "awaiting-payment": return .awaitingPayment
        case "dead": return .parked
        default: return nil
        }
    }

    private func forget(_ completion: Completion<Void>, _ id: String) {
        waiting[id]?[ObjectIdentifier(completion)] = nil
        if waiting[id]?.isEmpty == true { waiting[id] = nil }
    }

    private func settled(_ ids: [UInt8]) {
        for id in ids.split(separator: UInt8(ascii: "\n")) {
            guard let waiters = waiting[String(decoding: id, as: UTF8.self)] else { continue }
            for waiter in waiters.values { waiter.complete(()) }
        }
    }

    private func wakeAll() {
        for waiters in waiting.values { for waiter in waiters.values { waiter.complete(()) } }
    }
}
