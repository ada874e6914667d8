import Foundation
import Redis
import ServiceRuntime
import TestSupport
import Testing

@Suite struct RedisSafetyTests {
    @Test @LoopActor func theServerOfOurTestsIsSafe() async throws {
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                let findings = try await RedisSafety.check(redis)
                #expect(findings == SafetyFindings())
            }
        }
    }

    @Test(arguments: [
        ("appendonly no", "appendonly yes", "no", "Not in redis.conf and a restart: Redis would start empty"),
        (
            "appendfsync everysec", "appendfsync always", "everysec",
            "set appendfsync always in redis.conf, then restart"
        ),
        (
            "no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite no", "yes",
            "set no-appendfsync-on-rewrite no in redis.conf, then restart"
        ),
        (
            "maxmemory-policy allkeys-lru", "maxmemory-policy noeviction", "allkeys-lru",
            "CONFIG SET maxmemory-policy noeviction"
        ),
        ("replicaof 127.0.0.1 1", "role master", "slave", "take replicaof out"),
        (
            "user default on nopass ~* &* +@all -hset", "user default ~* +@all",
            "has no permissions to run the 'hset' command", "'user default off resetpass ~* &* +@all' into redis.conf"
        ),
        (
            "user default on nopass ~teller:{0}:* &* +@all", "user default ~* +@all",
            "has no permissions to access the 'teller:claims:0' key", "ACL SETUSER default ~* &* +@all"
        ),
    ])
    @LoopActor func eachViolationIsNamedWithItsFix(
        _ line: String, _ rule: String, _ found: String, _ fix: String
    ) async throws {
        // A replica without its primary still answers questions about itself.
        try await RedisServer.running([line]) { server in
            try await withConnection(server.url) { redis in
                let findings = try await RedisSafety.check(redis)
                #expect(findings.violations.map(\.rule) == [rule] && findings.doubts.isEmpty)
                #expect(findings.violations.first?.found.hasSuffix(found) == true)
                #expect(findings.violations.first?.fix.contains(fix) == true)
            }
        }
    }

    @Test @LoopActor func aUserWhoMayNotAskIsToldWhatToAllow() async throws {
        try await RedisServer.running(["user api on >p ~* +get +ping"]) { server in
            try await withConnection("redis://api:p@127.0.0.1:\(server.port)") { redis in
                let findings = try await RedisSafety.check(redis)
                #expect(findings.violations.count == 5)
                #expect(findings.violations.first?.fix.contains("+config|get") == true)
                #expect(findings.violations.last?.fix.contains("+role") == true)
            }
        }
    }

    @Test @LoopActor func thatTheReaderCannotBeCheckedIsToldAndNoReasonToRefuse() async throws {
        try await RedisServer.running(["user api on >p ~* +@all -acl"]) { server in
            try await withConnection("redis://api:p@127.0.0.1:\(server.port)") { redis in
                let findings = try await RedisSafety.check(redis)
                #expect(findings.violations.isEmpty && findings.doubts.count == 1)
                #expect(findings.doubts.first?.fix.contains("+acl|dryrun") == true)
            }
        }
    }

    /// Goal: the check asks for every write that a script of ours makes.
    @Test @LoopActor func everyWriteOfOurScriptsIsAskedFor() async throws {
        let asked = Set(RedisSafety.replayedWrites.compactMap(\.first))
        let commands = try Self.commandsInScripts()
        #expect(commands.count > 20)
        try await RedisServer.running { server in
            try await withConnection(server.url) { redis in
                for command in commands where command != "PUBLISH" {
                    let about = try await redis.send(["COMMAND", "INFO", .string(command)]).elements?.first?.elements
                    let flags = try #require(about?[2].elements).compactMap(\.text)
                    // Written down with the time at which it ends (redis/src/expire.c).
                    let name = command == "EXPIRE" ? "PEXPIREAT" : command
                    #expect(!flags.contains("write") || asked.contains(name), "\(command)")
                }
            }
        }
    }

    private static func commandsInScripts() throws -> Set<String> {
        let sources = Repository.root + "/Sources/"
        var commands: Set<String> = []
        for module in ["Jobs", "Ledger"] {
            let folder = sources + module + "/Scripts/"
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                let text = try String(contentsOfFile: folder + name, encoding: .utf8)
                for call in text.split(separator: "call('").dropFirst() {
                    commands.insert(String(call.prefix { $0 != "'" }))
                }
            }
        }
        return commands
    }

    @Test @LoopActor func theGuardRefusesWithEveryRuleAndSaysSoOnce() async throws {
        try await RedisServer.running(["appendfsync everysec", "maxmemory-policy allkeys-lru"]) { server in
            let log = try LogFile()
            let watch = RedisSafetyGuard(allowUnsafe: false, logger: log.logger)
            let validation = watch.validation
            var attempts = 0
            let configuration = RedisConfiguration(address: try RedisAddress(url: server.url)) { handshake in
                attempts += 1
                try await validation(handshake)
            }
            let redis = RedisConnection(configuration, logger: .disabled, metrics: nil)
            redis.start()
            let began = MonotonicInstant.now
            try await expectRefusal(of: redis) {
                $0.kind == .refused && $0.message.contains("appendfsync always")
                    && $0.message.contains("maxmemory-policy noeviction") && !$0.message.contains("CONFIG SET")
            }
            // Whoever waits hears of it at once, and not when its patience ends.
            await #expect(throws: RedisError.self) { try await redis.ready(within: .seconds(60)) }
            #expect(began.elapsed < .seconds(30))
            #expect(redis.failure?.kind == .refused && watch.refusal?.violations.count == 2)
            let list = try #require(watch.refusal?.list.split(separator: "\n"))
            #expect(list.count == 2 && list.allSatisfy { $0.contains("Fix: set ") })

            try await eventually("more attempts") { attempts >= 5 }
            #expect(log.events == ["redis is not safe"])

            // What changed is said at once.
            try await withConnection(server.url) { other in
                _ = try await other.send(["CONFIG", "SET", "maxmemory-policy", "noeviction"])
                try await eventually("the shorter list") { log.events.count == 2 }
                #expect(watch.refusal?.violations.map(\.rule) == ["appendfsync always"])
                _ = try await other.send(["CONFIG", "SET", "appendfsync", "always"])
            }
            try await redis.ready(within: .seconds(40))
            #expect(redis.failure == nil && watch.refusal == nil)
            #expect(log.events == ["redis is not safe", "redis is not safe", "redis is safe again"])
            await redis.stop()
        }
    }

    @Test @LoopActor func whatLastsIsSaidAgainAndAgain() async throws {
        try await RedisServer.running(["appendfsync everysec"]) { server in
            let log = try LogFile()
            let watch = RedisSafetyGuard(allowUnsafe: true, logger: log.logger, repeatAfter: .zero)
            for _ in 1...3 { try await withConnection(server.url, validate: watch.validation) { _ in } }
            #expect(log.events == ["redis is not safe", "redis is not safe", "redis is not safe"])
            #expect(watch.refusal == nil)
        }
    }
}

/// A logger's lines, in a file that nobody else sees.
struct LogFile {
    let logger: Logger
    private let sink: LogSink
    private let file: UnsafeMutablePointer<FILE>

    init() throws {
        file = try #require(tmpfile())
        sink = LogSink(descriptor: fileno(file), format: .json)
        logger = Logger(label: "test", sink: sink)
    }

    /// The events so far.
    var events: [String] {
        sink.flush()
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = pread(fileno(file), &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self).split(separator: "\n").map {
            (try? JSONView.parse(String($0)).string("event")) ?? "(not JSON)"
        }
    }
}
