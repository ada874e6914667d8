import Foundation
import Jobs
import Lab
import Redis
import ServiceRuntime
import TestSupport
import Testing

/// `teller dead` on letters that cannot, or shall not, be replayed; the ordinary ones are in ``ProcessTests``.
@LoopActor
@Suite(.serialized) struct DeadCommandTests {
    @Test(.timeLimit(.minutes(3))) func jobOfWhichOnlyTheBeginningWasKeptIsNotReplayedAndThatIsSaid() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let worker = try town.start("worker")
            try await town.withRedis { redis in
                let job = "{\"receiptData\":\"" + String(repeating: "x", count: 9000)
                _ = try await redis.send(["LPUSH", "teller:{0}:pending:apple", .string(job)])
            }
            var list = ""
            try await eventually("a dead letter") {
                list = try await town.teller("dead", "list").output
                return list.contains("malformed-job")
            }
            #expect(list.contains("only its beginning was kept"))
            let id = try JSONView.parse(try await town.teller("dead", "list", "--json").output).string("id")
            let replay = try await town.teller("dead", "replay", id)
            #expect(replay.code == 1 && replay.output.contains("\(id): truncated: "), "\(replay)")
            #expect(replay.output.contains("push it again"))
            let all = try await town.teller("dead", "replay", "--all")
            #expect(all.code == 0 && all.output.contains("0 of 1 replayed\n1 truncated: never "), "\(all)")
            #expect(all.output.contains("teller dead drop ID"))
            #expect(!all.output.contains("--force"))
            try await town.withRedis { redis in
                _ = try await redis.send(["HSET", "teller:{0}:dead", .string(id), "damaged"])
            }
            let changed = try await town.teller("dead", "replay", "--all")
            #expect(changed.output.contains("0 of 1 replayed\n1 changed: never "), "\(changed)")
            #expect(changed.output.contains("teller dead drop --force ID"))
            #expect(try await town.teller("dead", "drop", id).output.contains("\(id): kept: "))
            #expect(try await town.teller("dead", "drop", "--force", id).code == 0)
            worker.signal(SIGTERM)
            #expect(try await worker.end(within: .seconds(30)) == 0)
        }
    }

    @Test(.timeLimit(.minutes(3))) func onlyMalformedDeadLettersAreDroppedAndEachLeavesALineInTheLog() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let job = #"{"userId":"ada","receiptData":"s3cret-receipt"}"#
            var (malformed, purchase) = ("", "")
            try await town.withRedis { redis in
                let jobs = JobQueue(
                    redis: redis, incarnation: try await Meta.read(redis).incarnation, worker: WorkerID(),
                    logger: .disabled, metrics: nil)
                for isMalformed in [true, false] {
                    _ = try await redis.send(["LPUSH", "teller:{0}:pending:apple", .string(job)])
                    let lease = try #require(try await jobs.lease(queue: "apple", max: 1).first)
                    let reasons = [isMalformed ? "malformed-job" : "no-answer"]
                    let id = try await jobs.bury(lease, reasons: reasons, status: nil, isMalformed: isMalformed)
                    if isMalformed { malformed = id ?? "" } else { purchase = id ?? "" }
                }
            }
            let refused = try await town.teller("dead", "drop", purchase, "nothing")
            #expect(refused.code == 1 && refused.output.hasSuffix("0 of 2 dropped\n") && refused.errors.isEmpty)
            #expect(refused.output.contains("\(purchase): kept: "), "\(refused)")
            #expect(refused.output.contains("nothing: missing: "), "\(refused)")
            let digest = try JSONView.parse(try await town.teller("dead", "show", malformed).output).string("sha1")
            let some = try await town.teller("dead", "drop", "--all-malformed")
            #expect(some.code == 0 && some.output.hasSuffix("1 dropped, 1 left\n"), "\(some)")
            #expect(some.output.hasPrefix("\(malformed): dropped (apple, ") && !some.output.contains(purchase))
            let line = try JSONView.parse(some.errors)
            #expect(try line.string("event") == "dead letter dropped" && line.string("id") == malformed)
            #expect(try line.string("reasons") == "malformed-job" && line.string("sha1") == digest)
            let forced = try await town.teller("dead", "drop", "--force", purchase)
            #expect(forced.code == 0 && forced.output.hasSuffix("1 of 1 dropped\n"), "\(forced)")
            #expect(!(some.output + some.errors + forced.output + forced.errors).contains("s3cret"))
            #expect(try await town.teller("dead", "list").output == "No dead letters.\n")
            #expect(try await town.teller("dead", "show", purchase).code == 2)
        }
    }

    @Test(.timeLimit(.minutes(3))) func dropWhoseAnswerIsLostLeavesItsLineInTheLog() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            var ids: [String] = []
            try await town.withRedis { redis in
                let jobs = JobQueue(
                    redis: redis, incarnation: try await Meta.read(redis).incarnation, worker: WorkerID(),
                    logger: .disabled, metrics: nil)
                for _ in 1...2 {
                    _ = try await redis.send(["LPUSH", "teller:{0}:pending:apple", "s3cret-receipt"])
                    let lease = try #require(try await jobs.lease(queue: "apple", max: 1).first)
                    let id = try await jobs.bury(lease, reasons: ["malformed-job"], status: nil, isMalformed: true)
                    ids.append(try #require(id))
                }
            }
            // So that the server knows the script, and what is cut below is no question for its text.
            #expect(try await town.teller("dead", "drop", ids[0]).code == 0)
            let digest = try JSONView.parse(try await town.teller("dead", "show", ids[1]).output).string("sha1")
            let proxy = try RedisProxy(to: town.server.port)
            defer { proxy.stop() }
            proxy.cut("script meta,dead", .afterItWasApplied)
            let lost = try await TellerProgram.run(
                ["dead", "drop", ids[1], "--config", town.directory + "/teller.json"],
                environment: ["TELLER_REDIS_URL": "redis://127.0.0.1:\(proxy.port)/0"])
            #expect(proxy.cuts == 1 && lost.code != 0, "\(lost)")
            #expect(try await town.teller("dead", "list").output == "No dead letters.\n")
            let line = try #require(
                lost.errors.split(separator: "\n").lazy.compactMap { try? JSONView.parse(String($0)) }
                    .first { (try? $0.string("event")) == "dead letter perhaps dropped" }, "\(lost)")
            #expect(try line.string("id") == ids[1] && line.string("sha1") == digest)
            #expect(!lost.errors.contains("s3cret"))
        }
    }
}
