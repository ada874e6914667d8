import Commerce
import Jobs
import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Operations

@LoopActor
@Suite(.serialized) struct StatusReportTests {
    @Test func emptyPartitionIsQuiet() async throws {
        try await Bench.run { bench in
            let report = try await StatusReport.read(bench.jobs)
            #expect(report.text.contains("No worker is running.") && report.text.contains("dead letters: none"))
            #expect(!report.text.contains("settled"))
            #expect(report.waits.isEmpty && !report.text.contains("waits for"))
            let json = try JSONView.parse(report.json)
            #expect(try json.elements("queues").map { try $0.string("queue") } == ["apple", "google", "google-duty"])
            #expect(try json.elements("workers").isEmpty && json.int64("dead") == 0)
            #expect(json["settledPerSecond"] == nil)
        }
    }

    @Test func whatReceiptsWaitForIsCounted() async throws {
        try await Bench.run { bench in
            let ada = try PlayerID(validating: "ada")
            let waits: [(IndeterminateCause, String?)] = [
                (.unknownProduct, "gems_1"), (.storeThrottled, nil), (.unknownProduct, "gems_1"),
                (.misconfiguredProduct, "doubler"),
            ]
            for (number, wait) in waits.enumerated() {
                try await bench.enqueue("s-\(number)")
                let lease = try #require(try await bench.worker.lease(queue: "apple", max: 1).first)
                let status = SubmissionStatus(.pending, player: ada, cause: wait.0, awaitedProduct: wait.1)
                _ = try await bench.worker.retry(lease, after: .seconds(60), status: status.json)
            }
            let report = try await StatusReport.read(bench.jobs)
            #expect(
                report.waits == [
                    .init(queue: "apple", cause: "unknown-product", product: "gems_1", receipts: 2),
                    .init(queue: "apple", cause: "misconfigured-product", product: "doubler", receipts: 1),
                    .init(queue: "apple", cause: "store-throttled", product: nil, receipts: 1),
                ])
            let lines = report.text.split(separator: "\n")
            #expect(lines.contains { $0.contains("unknown-product") && $0.contains("gems_1") && $0.contains("2") })
            #expect(try JSONView.parse(report.json).elements("waits").first?.string("product") == "gems_1")
            // Of many jobs both ends are looked at, each job once.
            #expect(try await bench.jobs.waitingStatuses(in: "apple", sample: 1).count == 2)
        }
    }

    @Test func everythingThatWaitsIsCounted() async throws {
        try await Bench.run { bench in
            for number in 1...3 { try await bench.enqueue("s-\(number)") }
            _ = try await bench.redis.send(["LPUSH", "teller:{0}:pending:google", "{}"])
            try await bench.enqueue("d-1", queue: "google-duty")
            try await bench.bury(["malformed-job"], queue: "google-duty")
            let lease = try #require(try await bench.worker.lease(queue: "apple", max: 1).first)
            _ = try await bench.worker.retry(lease, after: .seconds(60), status: nil)
            _ = try await bench.worker.lease(queue: "apple", max: 1)
            let report = try await StatusReport.read(bench.jobs, settledPerSecond: 12.34)
            let apple = try #require(report.queues.first)
            #expect(apple.pending == 1 && apple.retry == 1 && apple.oldestPending != nil)
            #expect(report.queues[1].pending == 1 && report.queues[1].oldestPending == nil)
            #expect(report.dead == 1 && report.workers.map(\.running) == [1])
            #expect(report.workers.first?.isStale == false)
            let lines = report.text.split(separator: "\n").map(String.init)
            #expect(lines.contains { $0.hasPrefix("apple ") && $0.contains(" in ") })
            // A job that another program pushed has no age.
            #expect(lines.contains { $0.hasPrefix("google ") && $0.contains("unknown") })
            #expect(lines.contains("settled: 12.3 submissions a second"))
            #expect(lines.contains("dead letters: 1  (see: teller dead list)"))
            let json = try JSONView.parse(report.json)
            let queues = try json.elements("queues")
            #expect(try queues[0].int64("pending") == 1 && queues[0].int64("retry") == 1)
            #expect(queues[1]["oldestPendingMs"]?.isNull ?? true)
            #expect(try json.elements("workers").first?.int64("running") == 1 && json.int64("dead") == 1)
        }
    }
}

@LoopActor
@Suite(.serialized) struct QueueGaugesTests {
    private func value(_ metrics: Metrics, _ series: String) -> String? {
        metrics.render().split(separator: "\n").first { $0.hasPrefix(series + " ") }
            .map { String($0.dropFirst(series.count + 1)) }
    }

    /// Nobody knows how old a job is that another program pushed, but for how long it has not been taken.
    private func agesOfBareJobsGrowWhileNobodyTakesThem(_ bench: Bench, _ metrics: Metrics) async throws {
        func age() -> Double? {
            self.value(metrics, #"teller_queue_oldest_seconds{queue="apple"}"#).flatMap { Double($0) }
        }
        for job in ["1", "2"] { _ = try await bench.redis.send(["LPUSH", "teller:{0}:pending:apple", .string(job)]) }
        try await eventually("a growing age") { (age() ?? 0) > 0.3 }
        _ = try await bench.redis.send(["RPOP", "teller:{0}:pending:apple"])
        try await eventually("the age of the next one") { age().map { $0 < 0.3 } ?? false }
        try await eventually("its age to grow") { (age() ?? 0) > 0.3 }
    }

    @Test func gaugesFollowTheQueues() async throws {
        try await Bench.run { bench in
            let metrics = Metrics()
            let gauges = QueueGauges(bench.jobs, metrics: metrics, logger: .disabled)
            #expect(self.value(metrics, #"teller_queue_pending{queue="apple"}"#) == "NaN")
            gauges.start(every: .milliseconds(20))
            try await eventually("a first look") { self.value(metrics, "teller_dead_letters") == "0" }
            #expect(self.value(metrics, #"teller_queue_oldest_seconds{queue="google-duty"}"#) == "0")
            for number in 1...3 { try await bench.enqueue("s-\(number)", queue: "google") }
            try await eventually("three receipts of some age") {
                let age = self.value(metrics, #"teller_queue_oldest_seconds{queue="google"}"#).flatMap { Double($0) }
                return self.value(metrics, #"teller_queue_pending{queue="google"}"#) == "3" && (age ?? 0) > 0.05
            }
            try await bench.bury(["malformed-job"], queue: "google")
            try await eventually("a dead letter") { self.value(metrics, "teller_dead_letters") == "1" }
            try await self.agesOfBareJobsGrowWhileNobodyTakesThem(bench, metrics)
            await bench.server.kill()
            try await eventually("numbers that are not known any more") {
                self.value(metrics, #"teller_queue_pending{queue="google"}"#) == "NaN"
            }
            try await bench.server.start()
            try await eventually("numbers again") {
                self.value(metrics, #"teller_queue_pending{queue="google"}"#) == "2"
            }
            gauges.stop()
            #expect(self.value(metrics, "teller_dead_letters") == "NaN")
        }
    }
}

@LoopActor
@Suite(.serialized) struct DeadLetterReportTests {
    @Test func listShowsWhyAndNeverTheReceipt() async throws {
        try await Bench.run { bench in
            try await bench.enqueue("s-1")
            let id = try #require(try await bench.bury(["no-answer", "store-unavailable"]))
            let letters = try await bench.jobs.deadLetters()
            let report = DeadLetterReport(letters)
            for part in [id, "apple", "s-1", "no-answer; store-unavailable"] { #expect(report.text.contains(part)) }
            #expect(!report.text.contains("s3cret"))
            let json = try JSONView.parse(report.json(withPayload: false))
            #expect(try json.string("id") == id && json.string("submissionId") == "s-1")
            #expect(try json.elements("reasons").map { try $0.string() } == ["no-answer", "store-unavailable"])
            #expect(!report.json(withPayload: false).contains("s3cret"))
            #expect(report.json(withPayload: true).contains("s3cret-receipt"))
        }
    }

    @Test func nothingIsSaidInOneLine() { #expect(DeadLetterReport([]).text == "No dead letters.") }

    @Test func terminalIsNotCommanded() async throws {
        try await Bench.run { bench in
            try await bench.enqueue("s-1")
            try await bench.bury(["\u{1B}[2Jowned\u{07}\u{9B}31m"])
            let text = DeadLetterReport(try await bench.jobs.deadLetters()).text
            #expect(text.contains("owned"))
            #expect(!text.unicodeScalars.contains { $0 != "\n" && $0.properties.generalCategory == .control })
        }
    }
}
