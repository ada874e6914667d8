import Commerce
public import Jobs
import ServiceRuntime

/// How the queues stand, as one look at Redis sees it: what `teller status` prints.
public struct StatusReport: Sendable {
    /// Depth and age of each queue.
    public let queues: [QueueDepth]
    /// The registered workers, the longest silent first.
    public let workers: [WorkerState]
    /// Dead letters.
    public let dead: Int
    /// What receipts wait for, the most frequent first.
    public let waits: [Wait]
    /// Submissions settled per second while the report was made; nil when that was not listened for.
    public let settledPerSecond: Double?

    /// What some receipts of a queue wait for.
    public struct Wait: Sendable, Equatable {
        /// The queue.
        public let queue: String
        /// An `IndeterminateCause`.
        public let cause: String
        /// What to look for in the catalogue, when that is the cause.
        public let product: String?
        /// How many of the up to 20 receipts that were looked at.
        public let receipts: Int
    }

    /// The queues a report shows, in this order.
    public static let queueNames = ["apple", "google", "google-duty"]

    /// Reads everything.
    @LoopActor
    public static func read(_ jobs: JobQueue, settledPerSecond: Double? = nil) async throws -> StatusReport {
        var queues: [QueueDepth] = []
        var waits: [Wait] = []
        for name in queueNames {
            queues.append(try await jobs.depth(of: name))
            waits += self.waits(in: name, try await jobs.waitingStatuses(in: name))
        }
        return StatusReport(
            queues: queues, workers: try await jobs.workers(), dead: try await jobs.deadCount(), waits: waits,
            settledPerSecond: settledPerSecond)
    }

    private static func waits(in queue: String, _ statuses: [[UInt8]]) -> [Wait] {
        var counts: [[String?]: Int] = [:]
        for bytes in statuses {
            let status = try? SubmissionStatus(json: JSONView.parse(bytes))
            if let status, let cause = status.cause {
                counts[[cause.rawValue, status.awaitedProduct], default: 0] += 1
            }
        }
        return counts.map { Wait(queue: queue, cause: $0.key[0] ?? "", product: $0.key[1], receipts: $0.value) }
            .sorted { ($1.receipts, $0.cause, $0.product ?? "") < ($0.receipts, $1.cause, $1.product ?? "") }
    }

    /// The report for people: aligned columns, oldest ages, what receipts wait for, and what needs a human.
    public var text: String {
        var table = TextTable([
            "queue", "pending", "oldest", "arrived", "oldest", "retry", "next due", "suspects",
        ])
        for queue in queues {
            table.add([
                queue.queue, "\(queue.pending)", age(queue.oldestPending, known: queue.pending > 0), "\(queue.arrived)",
                age(queue.oldestArrived, known: queue.arrived > 0), "\(queue.retry)", due(queue.nextRetry),
                "\(queue.suspects)",
            ])
        }
        var crew = TextTable(["worker", "running", "last heartbeat"])
        for worker in workers {
            let beat = seconds(worker.heartbeatAge) + " ago" + (worker.isStale ? "  STALE: will be reaped" : "")
            crew.add([worker.worker, "\(worker.running)", beat])
        }
        var lines = [table.text, "", workers.isEmpty ? "No worker is running." : crew.text, ""]
        if !waits.isEmpty {
            var reasons = TextTable(["queue", "waits for", "product", "receipts seen"])
            for wait in waits { reasons.add([wait.queue, wait.cause, wait.product ?? "-", "\(wait.receipts)"]) }
            lines += [reasons.text, ""]
        }
        if let settledPerSecond {
            lines.append("settled: \(settledPerSecond.rounded(toPlaces: 1)) submissions a second")
        }
        lines.append(dead == 0 ? "dead letters: none" : "dead letters: \(dead)  (see: teller dead list)")
        return lines.joined(separator: "\n")
    }

    /// The report for programs: one JSON object; ages in milliseconds, null when unknown.
    public var json: String {
        var writer = JSONWriter(capacity: 1024)
        writer.object { writer in
            writer.member("queues", array: { writer in for queue in queues { writer.object { $0.queue(queue) } } })
            writer.member("workers", array: { writer in for worker in workers { writer.object { $0.worker(worker) } } })
            writer.member("waits", array: { writer in for wait in waits { writer.object { $0.wait(wait) } } })
            writer.member("dead", dead)
            writer.member("settledPerSecond", settledPerSecond)
        }
        return writer.text
    }

    private func age(_ age: Duration?, known: Bool) -> String {
        guard let age else { return known ? "unknown" : "-" }
        return seconds(age)
    }

    private func due(_ time: Duration?) -> String {
        guard let time else { return "-" }
        return time < .zero ? "overdue" : "in " + seconds(time)
    }

    private func seconds(_ time: Duration) -> String {
        let total = time.inSeconds
        switch total {
        case ..<120: return "\(total.rounded(toPlaces: 1)) s"
        case ..<7200: return "\((total / 60).rounded(toPlaces: 1)) min"
        default: return "\((total / 3600).rounded(toPlaces: 1)) h"
        }
    }
}

extension JSONWriter {
    fileprivate mutating func queue(_ queue: QueueDepth) {
        member("queue", queue.queue)
        member("pending", queue.pending)
        member("oldestPendingMs", queue.oldestPending?.inMilliseconds)
        member("arrived", queue.arrived)
        member("oldestArrivedMs", queue.oldestArrived?.inMilliseconds)
        member("retry", queue.retry)
        member("nextRetryMs", queue.nextRetry?.inMilliseconds)
        member("suspects", queue.suspects)
    }

    fileprivate mutating func wait(_ wait: StatusReport.Wait) {
        member("queue", wait.queue)
        member("cause", wait.cause)
        member("product", wait.product)
        member("receipts", wait.receipts)
    }

    fileprivate mutating func worker(_ worker: WorkerState) {
        member("worker", worker.worker)
        member("running", worker.running)
        member("heartbeatAgeMs", worker.heartbeatAge.inMilliseconds)
        member("isStale", worker.isStale)
    }
}

extension Double {
    fileprivate func rounded(toPlaces places: Int) -> Double {
        var factor = 1.0
        for _ in 0..<places { factor *= 10 }
        return (self * factor).rounded() / factor
    }
}
