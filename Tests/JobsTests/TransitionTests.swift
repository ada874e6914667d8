import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct TransitionTests {
    enum Step: String, Sendable, CaseIterable { case settle, retry, bury }

    struct Rule: Sendable {
        let step: Step
        let new: String
        let old: String?
        let isHeld: Bool
        let written: Bool
    }

    /// Who may write which status over which.
    static let rules: [Rule] = [
        Rule(step: .settle, new: "credited", old: "pending", isHeld: true, written: true),
        Rule(step: .settle, new: "credited", old: "pending", isHeld: false, written: true),
        Rule(step: .settle, new: "credited", old: "rejected", isHeld: false, written: true),
        Rule(step: .settle, new: "credited", old: nil, isHeld: false, written: true),
        Rule(step: .settle, new: "rejected", old: "pending", isHeld: true, written: true),
        Rule(step: .settle, new: "rejected", old: nil, isHeld: true, written: true),
        Rule(step: .settle, new: "rejected", old: "pending", isHeld: false, written: false),
        Rule(step: .settle, new: "rejected", old: "credited", isHeld: true, written: false),
        Rule(step: .settle, new: "rejected", old: "credited", isHeld: false, written: false),
        Rule(step: .settle, new: "awaiting-payment", old: "credited", isHeld: true, written: false),
        Rule(step: .settle, new: "awaiting-payment", old: "pending", isHeld: true, written: true),
        Rule(step: .retry, new: "pending", old: "pending", isHeld: true, written: true),
        Rule(step: .retry, new: "pending", old: "credited", isHeld: true, written: false),
        Rule(step: .retry, new: "pending", old: "rejected", isHeld: false, written: false),
        Rule(step: .bury, new: "dead", old: "pending", isHeld: true, written: true),
        Rule(step: .bury, new: "dead", old: "credited", isHeld: true, written: false),
        Rule(step: .bury, new: "dead", old: "pending", isHeld: false, written: false),
    ]

    @Test(arguments: rules) @LoopActor func statusIsWrittenByTheRules(_ rule: Rule) async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            let old = rule.old.map { text(statusJSON($0, #","player":"p1","old":1"#)) ?? "" }
            if let old {
                try await bench.raw("SET", bench.keys.status("0-a"), old)
            } else {
                try await bench.raw("DEL", bench.keys.status("0-a"))
            }
            if !rule.isHeld {
                try await bench.die(worker)
                let other = try await bench.worker("w2")
                #expect(try await other.sweep().toPending == 1)
            }
            let new = statusJSON(rule.new)
            switch rule.step {
            case .settle: #expect(try await worker.settle(lease, status: new) == rule.isHeld)
            case .retry: #expect(try await worker.retry(lease, after: .seconds(1), status: new) == rule.isHeld)
            case .bury: #expect((try await worker.bury(lease, reasons: ["r"], status: new) != nil) == rule.isHeld)
            }
            #expect(try await bench.status("0-a") == (rule.written ? text(new) : old))
            // In exactly one place, whatever happened.
            let gone = rule.step == .settle && rule.isHeld ? 0 : 1
            let (retries, dead) = (try await bench.retries(), try await bench.dead())
            #expect(try await bench.pending() + retries + dead == gone)
            #expect(try await bench.running(worker) == 0)
            #expect(worker.heldCount == 0)
        }
    }

    @Test @LoopActor func settlingTwiceSaysNotMineTheSecondTimeAndQueuesFollowUpsOnce() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            let duties = [
                FollowUp(queue: "google-duty", payload: Array("{\"duty\":\"1\n2\"}".utf8)),
                FollowUp(queue: "google-duty", payload: []),
            ]
            #expect(try await worker.settle(lease, status: statusJSON("credited"), followUps: duties))
            #expect(try await worker.settle(lease, status: statusJSON("credited"), followUps: duties) == false)
            #expect(try await bench.pending("google-duty") == 2)
            let leases = try await worker.lease(queue: "google-duty", max: 5)
            #expect(leases.map(\.payload) == duties.map(\.payload))
            #expect(leases.allSatisfy { $0.submission == nil && $0.queue == "google-duty" })
            for duty in leases { #expect(try await worker.settle(duty, status: nil)) }
            #expect(try await bench.status("0-a") == text(statusJSON("credited")))
        }
    }

    @Test @LoopActor func creditOfALostLeaseBringsItsFollowUpsUnlessSomebodyElseDid() async throws {
        try await Bench.run { bench in
            let slow = try await bench.worker("slow")
            let lease = try await slow.submitAndLease("0-a", on: bench.front())
            try await bench.die(slow)
            let other = try await bench.worker("other")
            _ = try await other.sweep()
            let duty = [FollowUp(queue: "google-duty", payload: [1])]
            #expect(try await slow.settle(lease, status: statusJSON("credited"), followUps: duty) == false)
            #expect(try await bench.pending("google-duty") == 1)
            // The other one holds the lease and finds the credit: the duty comes twice rather than never.
            let mine = try #require(try await other.lease(queue: "apple", max: 1).first)
            #expect(try await other.settle(mine, status: statusJSON("credited"), followUps: duty))
            #expect(try await slow.settle(lease, status: statusJSON("credited"), followUps: duty) == false)
            #expect(try await slow.settle(lease, status: statusJSON("rejected"), followUps: duty) == false)
            #expect(try await bench.pending("google-duty") == 2)
            #expect(try await bench.status("0-a") == text(statusJSON("credited")))
        }
    }

    @Test @LoopActor func settledAndBuriedSubmissionsArePublishedOncePerBatch() async throws {
        try await Bench.run { bench in
            var messages: [String] = []
            var isSubscribed = false
            let subscriber = RedisSubscriber(
                RedisConfiguration(address: try RedisAddress(url: bench.url)),
                logger: .disabled, metrics: nil, channels: [bench.front().settledChannel],
                onMessage: { _, bytes in messages.append(String(decoding: bytes, as: UTF8.self)) },
                onResubscribed: { isSubscribed = true })
            subscriber.start()
            try await eventually("subscribed") { isSubscribed }
            let worker = try await bench.worker("w1")
            for n in 1...5 { _ = try await bench.front().submit("0-\(n)") }
            let leases = try await worker.lease(queue: "apple", max: 5)
            let mine = try await together(leases.dropLast()) {
                try await worker.settle($0, status: statusJSON("credited"))
            }
            #expect(mine.allSatisfy { $0 })
            // Put aside: told only when it is news.
            let aside = try await worker.submitAndLease("0-6", on: bench.front())
            #expect(try await worker.retry(aside, after: .zero, status: statusJSON("pending")))
            let again = try #require(try await worker.lease(queue: "apple", max: 1).first)
            #expect(try await worker.retry(again, after: .zero, status: statusJSON("pending"), isNews: true))
            _ = try await worker.bury(leases[4], reasons: [], status: statusJSON("dead"))
            try await eventually("three messages") { messages.count == 3 }
            #expect(messages[0].split(separator: "\n").sorted() == ["0-1", "0-2", "0-3", "0-4"])
            #expect(messages[1...] == ["0-6", "0-5"])
            await subscriber.stop()
        }
    }

    /// Goal: who waits for a retry waits as long as was said, also when Redis's clock is set back meanwhile.
    ///
    /// Method: it is the same as if all that was written before it came from an hour later.
    @Test @LoopActor func retriesDoNotSleepForTheTimeByWhichTheClockWasSetBack() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let names = bench.keys.queue("apple")
            for n in 1...2 { try await bench.push("{\"n\":\(n)}") }
            let leases = try await worker.lease(queue: "apple", max: 2)
            for (lease, delay) in zip(leases, [Duration.zero, .seconds(600)]) {
                #expect(try await worker.retry(lease, after: delay, status: nil))
            }
            for entry in try await bench.raw("ZRANGE", names.retry, "0", "-1").elements ?? [] {
                try await bench.raw("ZINCRBY", names.retry, "3600000", entry.text ?? "")
            }
            try await bench.beforeNow(lastMs: -3_600_000, sinceMs: 0)
            #expect(try await worker.lease(queue: "apple", max: 2).isEmpty)
            for _ in 1...2 { try await worker.heartbeat() }
            let due = try await worker.lease(queue: "apple", max: 2)
            #expect(due.map { text($0.payload) } == [#"{"n":1}"#])
            let next = try #require(try await bench.front().depth(of: "apple").nextRetry)
            #expect((500...600).contains(next.inSeconds))
            // What is put aside now is not due any sooner for it.
            #expect(try await worker.retry(try #require(due.first), after: .seconds(300), status: nil))
            #expect(try await worker.lease(queue: "apple", max: 2).isEmpty)
            let sooner = try #require(try await bench.front().depth(of: "apple").nextRetry)
            #expect((200...300).contains(sooner.inSeconds))
        }
    }

    @Test @LoopActor func retryCountsTheAttemptAndComesBackWhenDueByRedisClock() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            #expect(try await worker.retry(lease, after: .seconds(1), status: statusJSON("pending")))
            #expect(try await worker.retry(lease, after: .zero, status: statusJSON("pending")) == false)
            #expect(try await worker.lease(queue: "apple", max: 1).isEmpty)
            var again: [Lease] = []
            try await eventually("due") {
                again = try await worker.lease(queue: "apple", max: 1)
                return !again.isEmpty
            }
            #expect(again[0].attempts == 1 && again[0].submission == "0-a")
            #expect(again[0].firstSeen == lease.firstSeen && again[0].payload == lease.payload)
        }
    }

    @Test @LoopActor func equalJobsAreTwoJobsInTheRetrySetToo() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for _ in 0..<4 { try await bench.push("T1 - 0 17 0 0\n{\"same\":1}") }
            for lease in try await worker.lease(queue: "apple", max: 4) {
                #expect(try await worker.retry(lease, after: .zero, status: nil))
            }
            #expect(try await bench.retries() == 4)
            let again = try await worker.lease(queue: "apple", max: 9)
            #expect(again.count == 4)
            #expect(again.allSatisfy { text($0.payload) == "{\"same\":1}" && $0.attempts == 1 })
        }
    }

    @Test @LoopActor func keyOfTheWrongTypeLosesNothing() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 1...3 { _ = try await bench.front().submit("0-\(n)") }
            let leases = try await worker.lease(queue: "apple", max: 3)
            for key in [bench.keys.queue("apple").retry, bench.keys.dead, bench.keys.queue("google-duty").pending] {
                try await bench.raw("SET", key, "in the way")
            }
            await #expect(throws: RedisError.self) {
                try await worker.retry(leases[0], after: .zero, status: statusJSON("pending"))
            }
            await #expect(throws: RedisError.self) {
                try await worker.bury(leases[1], reasons: [], status: statusJSON("dead"))
            }
            await #expect(throws: RedisError.self) {
                let duty = FollowUp(queue: "google-duty", payload: [1])
                return try await worker.settle(leases[2], status: statusJSON("credited"), followUps: [duty])
            }
            #expect(try await bench.running(worker) == 3)
            // Given up by the transitions, so adoptable.
            #expect(worker.heldCount == 0)
            #expect(try await worker.adopt().count == 3)
        }
    }
}
