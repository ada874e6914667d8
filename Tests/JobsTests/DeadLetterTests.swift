import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

@Suite struct DeadLetterTests {
    @Test @LoopActor func keepsTheJobByteForByteWithItsReasonsAndHistory() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let payload: [UInt8] = Array("{\"x\":\"\n".utf8) + (0...255).map { UInt8($0) }
            _ = try await bench.front().enqueue(
                payload, queue: "apple", submission: "0-a", pendingStatus: statusJSON("pending"))
            let lease = try #require(try await worker.lease(queue: "apple", max: 1).first)
            let reasons = ["impossible", "quote \" and \\ and \n feed"]
            let id = try #require(try await worker.bury(lease, reasons: reasons, status: statusJSON("dead")))
            let letter = try #require(try await bench.front().deadLetter(id))
            #expect(letter.payload == payload && letter.reasons == reasons && letter.submission == "0-a")
            #expect(letter.queue == "apple" && !letter.isTruncated && letter.firstSeen == lease.firstSeen)
            #expect(abs((letter.buriedAt - (UnixMilliseconds(try await worker.serverNow()))).inMilliseconds) < 5000)
            #expect(try await bench.status("0-a") == text(statusJSON("dead")))
            #expect(try await bench.front().deadLetters() == [letter])
        }
    }

    @Test(arguments: [("pending", "dead"), ("credited", "credited"), ("rejected", "rejected")])
    @LoopActor func buriedWithoutAStatusNobodyIsLeftWaiting(_ state: String, _ after: String) async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            try await bench.raw("SET", bench.keys.status("0-a"), text(statusJSON(state)) ?? "")
            #expect(try await worker.bury(lease, reasons: ["why"], status: nil) != nil)
            #expect(try await bench.status("0-a") == text(statusJSON(after)))
        }
    }

    @Test @LoopActor func malformedOneIsCutAndCannotBeReplayed() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("not json " + String(repeating: "x", count: 100_000))
            let lease = try #require(try await worker.lease(queue: "apple", max: 1).first)
            let id = try #require(
                try await worker.bury(lease, reasons: ["not JSON"], status: nil, isMalformed: true))
            let letter = try #require(try await worker.deadLetter(id))
            #expect(letter.payload.count == 4096 && letter.isTruncated && letter.entryBytes == 100_009)
            let digest = try await bench.redis.send([
                "EVAL", "return redis.sha1hex(ARGV[1])", 0,
                .string("not json " + String(repeating: "x", count: 100_000)),
            ]).text
            #expect(letter.sha1 == digest)
            #expect(try await worker.replay(id) == .truncated)
            #expect(try await bench.dead() == 1)
        }
    }

    @Test(arguments: [false, true]) @LoopActor func malformedOneCanBeDroppedAndIsTold(isLong: Bool) async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("not json " + String(repeating: "x", count: isLong ? 9000 : 9))
            let lease = try #require(try await worker.lease(queue: "apple", max: 1).first)
            let reasons = ["malformed-job", #""malformed":false"#]
            let id = try #require(try await worker.bury(lease, reasons: reasons, status: nil, isMalformed: true))
            let letter = try #require(try await worker.deadLetter(id))
            #expect(letter.isMalformed && letter.isTruncated == isLong)
            guard case .dropped(let told?) = try await bench.front().drop(id) else {
                Issue.record("not dropped")
                return
            }
            #expect(told.id == id && told.sha1 == letter.sha1 && told.reasons == reasons && told.payload.isEmpty)
            #expect(try await bench.dead() == 0)
            #expect(try await bench.count(bench.keys.deadIndex) == 0)
            #expect(try await bench.front().drop(id) == .missing)
        }
    }

    @Test @LoopActor func whatMayBeAPurchaseIsDroppedByForceOnly() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            let reasons = ["no-answer", #","malformed":true,"entryBytes":1,"keptBytes":2"#]
            let id = try #require(try await worker.bury(lease, reasons: reasons, status: statusJSON("dead")))
            #expect(try await bench.front().deadLetter(id)?.isMalformed == false)
            #expect(try await bench.front().drop(id) == .kept)
            #expect(try await bench.front().deadIDs() == [id])
            guard case .dropped(let told?) = try await bench.front().drop(id, force: true) else {
                Issue.record("not dropped")
                return
            }
            #expect(told.submission == "0-a")
            #expect(try await bench.dead() == 0)
            // Whoever has the receipt is served as if it had never been here.
            try await bench.age("0-a", by: 11_000)
            #expect(try await bench.front().submit("0-a") == .enqueued)
        }
    }

    @Test(arguments: [false, true])
    @LoopActor func malformedOneWithASubmissionIsDroppedByForceOnly(isLong: Bool) async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            _ = try await bench.front().submit("0-a", String(repeating: "x", count: isLong ? 9000 : 9))
            let lease = try #require(try await worker.lease(queue: "apple", max: 1).first)
            let id = try #require(try await worker.bury(lease, reasons: ["why"], status: nil, isMalformed: true))
            #expect(try await bench.front().deadLetter(id)?.isTruncated == isLong)
            #expect(try await bench.front().drop(id) == .kept)
            #expect(try await bench.dead() == 1)
            #expect(try await bench.front().drop(id, force: true) != .kept)
        }
    }

    @Test @LoopActor func idsThatAreNoTextDoNotMakeOthersComeTwice() async throws {
        try await Bench.run { bench in
            try await bench.raw(
                "EVAL", "for n = 1, 2000 do redis.call('ZADD', KEYS[1], n, (n <= 1000 and '\\255' or '') .. n) end",
                "1",
                bench.keys.deadIndex)
            let ids = try await bench.front().deadIDs()
            #expect(ids == (1001...2000).map(String.init))
        }
    }

    @Test @LoopActor func damagedRecordIsNamedAndDroppedByForceOnly() async throws {
        try await Bench.run { bench in
            let front = bench.front()
            try await bench.raw("HSET", bench.keys.dead, "1-1", "no record of ours")
            try await bench.raw("ZADD", bench.keys.deadIndex, "1", "1-1", "2", "2-1")
            #expect(try await front.deadIDs() == ["1-1", "2-1"])
            #expect(try await front.replay("1-1") == .changed)
            #expect(try await front.drop("1-1") == .kept)
            #expect(try await front.drop("1-1", force: true) == .dropped(nil))
            // An id without a record: there is nothing to lose.
            #expect(try await front.replay("2-1") == .missing)
            #expect(try await front.drop("2-1") == .dropped(nil))
            #expect(try await front.deadCount() == 0)
        }
    }

    @Test @LoopActor func foreignRedisForgetsNothing() async throws {
        try await Bench.run { bench in
            try await bench.raw("ZADD", bench.keys.deadIndex, "1", "1-1")
            let front = bench.front()
            try await bench.raw("DEL", bench.keys.meta)
            let error = await #expect(throws: RedisError.self) { try await front.drop("1-1", force: true) }
            #expect(error?.isWrongIncarnation == true)
            #expect(try await bench.count(bench.keys.deadIndex) == 1)
        }
    }

    @Test @LoopActor func replayGivesAnotherLife() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            try await bench.push("T1 0-a 9 17 2 1\n{\"n\":1}")
            let lease = try #require(try await worker.lease(queue: "apple", max: 1).first)
            let id = try #require(try await worker.bury(lease, reasons: ["why"], status: statusJSON("dead")))
            #expect(try await bench.front().replay(id) == .replayed)
            #expect(try await bench.front().replay(id) == .missing)
            #expect(try await bench.dead() == 0)
            #expect(try await bench.count(bench.keys.deadIndex) == 0)
            #expect(try await bench.status("0-a") == text(statusJSON("pending")))
            let again = try #require(try await worker.lease(queue: "apple", max: 1).first)
            #expect(again.attempts == 0 && again.crashes == 0 && again.submission == "0-a")
            #expect(text(again.payload) == "{\"n\":1}")
            #expect(again.firstSeen.value > 17)
        }
    }

    @Test @LoopActor func replayDoesNotTouchACredit() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            let lease = try await worker.submitAndLease("0-a", on: bench.front())
            let id = try #require(try await worker.bury(lease, reasons: [], status: statusJSON("dead")))
            try await bench.raw("SET", bench.keys.status("0-a"), text(statusJSON("credited")) ?? "")
            #expect(try await bench.front().replay(id) == .replayed)
            #expect(try await bench.status("0-a") == text(statusJSON("credited")))
        }
    }

    @Test @LoopActor func manyBuriedInOneBatchGetNamesOfTheirOwnAndPages() async throws {
        try await Bench.run { bench in
            let worker = try await bench.worker("w1")
            for n in 0..<130 { try await bench.push("{\"n\":\(n)}") }
            let leases = try await worker.lease(queue: "apple", max: 130)
            let buried = try await together(leases) { try await worker.bury($0, reasons: ["r"], status: nil) }
            let ids = Set(buried.map { $0 ?? "none" })
            #expect(ids.count == 130 && !ids.contains("none"))
            #expect(try await worker.deadCount() == 130)
            let pages = [try await worker.deadLetters(limit: 1000), try await worker.deadLetters(offset: 100)]
            #expect(pages.map(\.count) == [100, 30])
            #expect(Set(pages.joined().map(\.id)) == ids)
        }
    }
}
