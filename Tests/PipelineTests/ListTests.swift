import Commerce
import Jobs
import Redis
import Ledger
import ReceiptWorker
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

/// The list as an interface: any program may push a job, and nothing it pushes can do harm.
@LoopActor
@Suite(.serialized) struct ListTests {
    @Test(arguments: [EmulatedStore.apple, .google])
    func pushedJobIsCreditedAndItsStatusAppears(store: EmulatedStore) async throws {
        try await Works.run { works in
            let purchase = try works.buy(store)
            // As the README shows it.
            let job = #"{"userId":"ada","productId":"gems_pack_medium","receiptData":"\#(purchase.receipt)"}"#
            #expect(try await works.status(of: job) == nil)
            try await works.push(job, to: store.rawValue)
            try await eventually("the status to say credited") {
                try await works.status(of: job)?.state == .credited
            }
            #expect(try await works.gems() == 550)
            // The API knows it by the same name.
            let answer = try await works.submit(job)
            #expect(answer.summary == "200 credited finish" && answer.isAlreadyProcessed == true)
        }
    }

    @Test func statusIsThereWhileTheStoreIsAsked() async throws {
        try await Works.run { works in
            works.emulator.setFaults(FaultKnobs(faults: [StoreFault(.hang)]), for: "apple")
            let job = Works.order(try works.buy(.apple).receipt)
            try await works.push(job, to: "apple")
            try await eventually("a status") { try await works.status(of: job)?.state == .pending }
            #expect(try await works.status(of: job)?.player.rawValue == "ada")
        }
    }

    @Test func jobUnderAnothersNameWritesOnlyItsOwnStatus() async throws {
        try await Works.run { works in
            let victims = Works.order(try works.buy(.google, by: "victim").receipt, "victim")
            let name = try Works.id(of: victims).rawValue
            let thiefs = [
                Works.order(try works.buy(.google, by: "thief").receipt, "thief"),
                Works.order("eyJhbGciOiJFUzI1NiJ9.e30.c2ln", "thief"),
            ]
            for job in thiefs {
                try await works.push("T1 \(name) 0 \(UnixMilliseconds.now.value) 0 0\n\(job)", to: "google")
            }
            for job in thiefs {
                try await eventually("an end under its own name") {
                    [.credited, .rejected].contains(try await works.status(of: job)?.state)
                }
            }
            #expect(try await works.status(of: victims) == nil)
            let answer = try await works.submit(victims)
            #expect(answer.summary == "200 credited finish" && answer.isAlreadyProcessed == false)
            #expect(try await works.gems("victim") == 550)
        }
    }

    @Test func settlementOfAPushedJobIsPublished() async throws {
        try await Works.run { works in
            let heard = Heard()
            let subscriber = RedisSubscriber(
                RedisConfiguration(address: try RedisAddress(url: works.server.url)), logger: .disabled, metrics: nil,
                channels: ["teller:{0}:settled"],
                onMessage: { _, ids in heard.ids += String(decoding: ids, as: UTF8.self).split(separator: "\n") },
                onResubscribed: { heard.isListening = true })
            subscriber.start()
            try await eventually("the subscription") { heard.isListening }
            let job = Works.order(try works.buy(.apple) { $0.signer = .rogueRoot }.receipt)
            try await works.push(job, to: "apple")
            let id = try Works.id(of: job).rawValue
            try await eventually("the id on the channel") { heard.ids.contains(id[...]) }
            #expect(try await works.status(of: job)?.reason == .invalidSignature)
            await subscriber.stop()
        }
    }

    @LoopActor
    private final class Heard {
        var ids: [Substring] = []
        var isListening = false
    }

    @Test func jobOnTheOtherStoresListIsCreditedAllTheSame() async throws {
        try await Works.run { works in
            try await works.push(Works.order(try works.buy(.apple).receipt), to: "google")
            try await eventually("it to be credited") { try await works.gems() == 550 }
        }
    }

    /// A worker died between the credit and its settlement: the job as it is reaped, and the status as it was then.
    @Test func reapedJobsOwnCreditIsTheFirstThatIsHeardOf() async throws {
        try await Works.run { works in
            let job = Works.order(try works.buy(.apple).receipt)
            try await works.push(job, to: "apple")
            try await eventually("it to be credited") { try await works.status(of: job)?.state == .credited }
            let entries: RedisArgument = "teller:{0}:ledger:ada"
            let entry = try #require(try await works.redis.send(["LINDEX", entries, "0"]).text)
            let creditedAt = try JSONView.parse(entry).int64("creditedAtMs")
            let reaped = "T1 - 0 \(creditedAt + 3000) 1 0\n" + job
            let pending = SubmissionStatus(.pending, player: try PlayerID(validating: "ada"))
            let key = RedisArgument.string("teller:{0}:status:\(try Works.id(of: job).rawValue)")
            // One that this version cannot read says nothing, and holds nothing up.
            for status in [pending.json, Array(#"{"state":"pending","userId":{"id":"ada"}}"#.utf8)] {
                _ = try await works.redis.send(["SET", key, .bytes(status)])
                try await works.push(reaped, to: "apple")
                try await eventually("it to be settled") { (try? await works.status(of: job))?.state == .credited }
                #expect(try await works.status(of: job)?.isAlreadyProcessed == false)
            }
            // It was heard of: so says the status, or it is longer ago than a status can say.
            try await works.push(reaped, to: "apple")
            try await eventually("it to be told as old") { try await works.status(of: job)?.isAlreadyProcessed == true }
            let older = entry.replacing("\(creditedAt)", with: "\(creditedAt - 86_400_000)")
            _ = try await works.redis.send(["LSET", entries, "0", .string(older)])
            _ = try await works.redis.send(["SET", key, .bytes(pending.json)])
            try await works.push(reaped, to: "apple")
            try await eventually("it to be settled") { try await works.status(of: job)?.state == .credited }
            #expect(try await works.status(of: job)?.isAlreadyProcessed == true)
            #expect(try await works.totals() == [550, 1, 1])
        }
    }

    @Test func sameJobPushedManyTimesIsCreditedOnce() async throws {
        try await Works.run { works in
            let job = Works.order(try works.buy(.apple).receipt)
            for _ in 1...50 { try await works.push(job, to: "apple") }
            try await eventually(within: .seconds(30), "all to be done") { try await works.isIdle() }
            #expect(try await works.totals() == [550, 1, 1])
            #expect(try await works.status(of: job)?.state == .credited)
        }
    }

    nonisolated static let malformed: [[UInt8]] = [
        [], Array("not json".utf8), Array("{}".utf8), Array("[1,2]".utf8), Array("null".utf8), [0], [0xFF, 0xFE, 0],
        Array(#"{"userId":"ada"}"#.utf8), Array(#"{"userId":"../x","receiptData":"eyJh.eyJh.c2ln"}"#.utf8),
        Array(#"{"userId":"a","userId":"b","receiptData":"eyJh.eyJh.c2ln"}"#.utf8), Array("T1".utf8),
        Array("T1 garbage".utf8), Array("T1 - 0 0 0 0\n".utf8), Array("T1 - x y z\n{}".utf8),
        Array("T1 - 0 0 0 0\n{\"userId\":1}".utf8), Array(String(repeating: "[", count: 100_000).utf8),
        Array(#"{"userId":"ada","receiptData":""}"#.utf8), Array(#"{"userId":"ada","receiptData":"hello"}"#.utf8),
        Array(#"{"userId":"ada","receiptData":"eyJh.eyJh.c2ln","acountToken":"x"}"#.utf8),
        Array(#"{"userId":"ada","receiptData":"eyJh.eyJh.c2ln","productId":"../x"}"#.utf8),
        Array(#"{"userId":1e400,"receiptData":"eyJh.eyJh.c2ln"}"#.utf8),
        Array(#"{"userId":"a\u0000","receiptData":"eyJh.eyJh.c2ln"}"#.utf8),
        Array(#"{"userId":[[[[[[[[[1]]]]]]]]],"receiptData":"eyJh.eyJh.c2ln"}"#.utf8),
        Array(#"{"userId":"ada","platform":"android","receiptData":"eyJh.eyJh.c2ln"}"#.utf8),
        Array(#"{"userId":"ada","receiptData":"aaaabbbbccccddddeeeeffff.AO-J1Omadeup"}"#.utf8),
        Array(#"{"userId":"\#(String(repeating: "u", count: 10_240))","receiptData":"eyJh.eyJh.c2ln"}"#.utf8),
        Array(repeating: UInt8(ascii: "x"), count: 2_000_000),
    ]

    @Test(arguments: [EmulatedStore.apple, .google])
    func malformedJobsAreKeptWithTheirReasonAndStopNobody(store: EmulatedStore) async throws {
        try await Works.run { works in
            for job in Self.malformed { try await works.push(bytes: job, to: store.rawValue) }
            let purchase = try works.buy(store)
            try await works.push(Works.order(purchase.receipt), to: store.rawValue)
            try await eventually(within: .seconds(30), "all to be done") {
                try await works.jobs.deadCount() == Self.malformed.count
            }
            try await eventually(within: .seconds(30), "the good one to be credited") {
                try await works.gems() == 550
            }
            try await eventually("all to be done") { try await works.isIdle() }
            let letters = try await works.jobs.deadLetters()
            #expect(letters.count == Self.malformed.count && letters.allSatisfy { $0.queue == store.rawValue })
            #expect(letters.allSatisfy { $0.payload.count <= 4096 && !$0.sha1.isEmpty && !$0.reasons.isEmpty })
            #expect(letters.filter(\.isTruncated).count == 3)
            let missing = try #require(letters.first { $0.payload == Array(#"{"userId":"ada"}"#.utf8) })
            #expect(missing.reasons.first == "malformed-job" && missing.reasons.last?.contains("receiptData") == true)
            #expect(works.failures == 0)
        }
    }

    @Test func replayedMalformedJobDiesAgain() async throws {
        try await Works.run { works in
            try await works.push("{}", to: "apple")
            try await eventually("a dead letter") { try await works.jobs.deadCount() == 1 }
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(try await works.jobs.replay(letter.id) == .replayed)
            try await eventually("another one") {
                try await works.jobs.deadLetters().first.map { $0.id != letter.id } ?? false
            }
            #expect(try await works.jobs.deadCount() == 1)
        }
    }

    @Test func malformedDutyIsKept() async throws {
        try await Works.run { works in
            try await works.push(#"{"duty":"google-explode"}"#, to: "google-duty")
            try await eventually("a dead letter") { try await works.jobs.deadCount() == 1 }
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.reasons.first == "malformed-duty" && !letter.isMalformed)
            #expect(try await works.jobs.drop(letter.id) == .kept)
        }
    }

    /// In an upgrade an older worker meets what the API of the newer version accepted.
    @Test func jobOfANewerVersionIsKeptWholeForAWorkerThatCanReadIt() async throws {
        try await Works.run { works in
            let receipt = String(repeating: "x", count: 9000)
            let job = #"{"userId":"ada","receiptData":"\#(receipt)","newField":1}"#
            try await works.push("T1 0-a 0 1 0 0\n" + job, to: "apple")
            try await eventually("a dead letter") { try await works.jobs.deadCount() == 1 }
            let letter = try #require(try await works.jobs.deadLetters().first)
            #expect(letter.reasons.first == "malformed-job" && letter.submission == "0-a")
            #expect(!letter.isMalformed && letter.payload == Array(job.utf8))
            #expect(try await works.jobs.drop(letter.id) == .kept)
            #expect(try await works.jobs.replay(letter.id) == .replayed)
        }
    }
}
