import Foundation
import Glibc
import Lab
import Redis
import ServiceRuntime
import TestSupport
import Testing

/// `teller status` where there is no Redis to speak of, and where no terminal reads it.
@LoopActor
@Suite(.serialized) struct StatusCommandTests {
    @Test(.timeLimit(.minutes(3))) func wrongPasswordIsToldWithTheUserAndWhereItStands() async throws {
        try await Town.run { town in
            try await town.withRedis { redis in
                _ = try await redis.send(["ACL", "SETUSER", "ops", "on", ">right", "~*", "+@all"])
            }
            let run = try await TellerProgram.run(
                ["status", "--config", town.directory + "/teller.json"],
                environment: ["TELLER_REDIS_URL": "redis://ops:s3cret@127.0.0.1:\(town.server.port)"])
            #expect(run.code == 1 && run.errors.contains("the user \"ops\"") && run.errors.contains("passwordFile"))
            #expect(run.errors.contains("127.0.0.1:\(town.server.port)") && !run.errors.contains("s3cret"), "\(run)")
        }
    }

    /// A frozen Redis: its kernel connects, nobody answers.
    @Test(.timeLimit(.minutes(3))) func redisThatDoesNotAnswerIsToldFromOneThatIsNotThere() async throws {
        try await Town.run { town in
            await town.server.freeze()
            let run = try await town.teller("status")
            #expect(run.code == 1 && run.errors.contains("what listens at \(town.server.url)"), "\(run)")
            await town.server.thaw()
        }
    }

    @Test(.timeLimit(.minutes(3))) func watchedStatusWaitsForRedisAndSaysWhy() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            await town.server.kill()
            let watch = try RunningProgram(
                ["status", "--watch", "--interval", "0.1", "--config", town.directory + "/teller.json"],
                environment: [:], directory: town.directory, name: "watch")
            let absence = "Redis: there is no Redis at \(town.server.url)"
            try await eventually("two tries") { watch.output.components(separatedBy: absence).count > 2 }
            try await town.server.start()
            try await eventually("a report") { watch.output.contains("dead letters: none") }
            watch.signal(SIGTERM)
            #expect(try await watch.end(within: .seconds(30)) == 0)
            // Redis was never there for this one, and it ends all the same.
            await town.server.kill()
            let vain = try RunningProgram(
                ["status", "--watch", "--interval", "60", "--config", town.directory + "/teller.json"],
                environment: [:], directory: town.directory, name: "vain")
            try await eventually("a try") { vain.output.contains(absence) }
            vain.signal(SIGTERM)
            #expect(try await vain.end(within: .seconds(30)) == 0)
            try await town.server.start()
        }
    }

    @Test(.timeLimit(.minutes(3))) func watchedStatusIsFitForAPipe() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let watch = try RunningProgram(
                ["status", "--watch", "--interval", "0.1", "--config", town.directory + "/teller.json"],
                environment: [:], directory: town.directory, name: "watch")
            // Each report is there when it was made, not when a buffer is full.
            try await eventually("two reports") { watch.output.components(separatedBy: "dead letters: none").count > 2 }
            watch.signal(SIGTERM)
            #expect(try await watch.end(within: .seconds(30)) == 0)
            #expect(!watch.output.contains("\u{1B}") && watch.output.contains("none\n\nqueue "), "\(watch.output)")
            // `| head` ends it.
            let words = "status --watch --interval 0.1 --config '\(town.directory)/teller.json'"
            let shell = try ChildProcess(
                ["/bin/sh", "-c", "'\(TellerProgram.path)' \(words) | head -n 1"], environment: [:], input: "/dev/null",
                output: town.directory + "/head.out", errors: town.directory + "/head.err")
            try await eventually("the end") { !shell.isRunning }
        }
    }
}
