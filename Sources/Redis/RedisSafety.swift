public import ServiceRuntime

/// One way in which a Redis may lose or forget what Teller was told is stored, and how to fix it.
public struct SafetyViolation: Error, Equatable, Sendable, CustomStringConvertible {
    /// The rule, as `setting value`, for example `appendfsync always`.
    public let rule: String
    /// What the server has instead.
    public let found: String
    /// What to type or write to make it right.
    public let fix: String

    /// The rule, what was found and the fix, in one line.
    public var description: String { "\(rule): found \(found). Fix: \(fix)" }
}

/// What is known about the safety of a Redis.
public struct SafetyFindings: Sendable, Equatable {
    /// Rules that do not hold; each is a reason not to let the server hold money.
    public var violations: [SafetyViolation] = []
    /// Rules of which it is not known whether they hold, and which are no reason to refuse the server.
    public var doubts: [SafetyViolation] = []

    /// Nothing that speaks against the server.
    public init() {}
}

/// The settings without which a Redis must not hold money (design §5): every acknowledged write is on disk and comes back
/// from there, nothing is evicted, and the server is the primary.
///
/// The advice is to edit redis.conf and restart, which is always possible, while no user of deploy/redis.conf may
/// change a server that runs. The one setting with which a restart would destroy everything has advice of its own.
@LoopActor
public struct RedisSafety {
    private struct Rule {
        let setting: String
        let value: String
        let why: String

        var fix: String {
            let line = "\(setting) \(value)"
            // Redis 7 that starts with the append-only file switched on and finds none begins with no data: it does not
            // look at its snapshot.
            guard setting != "appendonly" else {
                return
                    "redis-cli CONFIG SET \(line), then \(line) in redis.conf (\(why)). Not in redis.conf and a restart: "
                    + "Redis would start empty. If no user may do CONFIG SET: see RUNBOOK.md, Append-only file"
            }
            return
                "set \(line) in redis.conf, then restart Redis; if a user may, redis-cli CONFIG SET \(line) spares the "
                + "restart (\(why))"
        }
    }

    private static let rules = [
        Rule(setting: "appendonly", value: "yes", why: "without it a restart forgets every credit"),
        Rule(setting: "appendfsync", value: "always", why: "with everysec a power cut takes back acknowledged credits"),
        Rule(
            setting: "no-appendfsync-on-rewrite", value: "no",
            why: "with yes nothing is synced while the append-only file is rewritten"),
        Rule(
            setting: "maxmemory-policy", value: "noeviction", why: "an evicted mark lets the same purchase credit twice"
        ),
    ]

    /// Asks the server (CONFIG GET, ROLE, ACL DRYRUN) and returns what is wrong; nothing when all is well.
    ///
    /// - Throws: When the server cannot be asked at all. A missing permission is a finding, not an error.
    public static func check(_ redis: some RedisCommanding) async throws(RedisError) -> SafetyFindings {
        var findings = SafetyFindings()
        for rule in rules {
            let found: String
            do throws(RedisError) {
                let reply = try await redis.send(["CONFIG", "GET", .string(rule.setting)], idempotent: true)
                found = reply.elements?.dropFirst().first?.text ?? "nothing (the server does not know the setting)"
            } catch  where error.kind == .noPermission {
                findings.violations.append(notAllowed("\(rule.setting) \(rule.value)", "CONFIG GET", "+config|get"))
                continue
            }
            guard found != rule.value else { continue }
            findings.violations.append(
                SafetyViolation(rule: "\(rule.setting) \(rule.value)", found: found, fix: rule.fix))
        }
        if let violation = try await checkRole(redis) { findings.violations.append(violation) }
        try await checkReader(redis, &findings)
        return findings
    }

    private static func checkRole(_ redis: some RedisCommanding) async throws(RedisError) -> SafetyViolation? {
        do throws(RedisError) {
            let role = try await redis.send(["ROLE"], idempotent: true).elements?.first?.text ?? "nothing"
            guard role != "master" else { return nil }
            return SafetyViolation(
                rule: "role master", found: role,
                fix: "give the primary's address; or, if this server is to be the primary, take replicaof out of its "
                    + "redis.conf and restart it (redis-cli REPLICAOF NO ONE, if a user may)")
        } catch  where error.kind == .noPermission {
            return notAllowed("role master", "ROLE", "+role")
        }
    }

    // MARK: - Who reads the append-only file

    private static let readerRule = "user default ~* +@all"

    /// What a transaction in the append-only file may consist of: the writes of Teller's scripts, in the form in which
    /// Redis hands them on (EXPIRE as PEXPIREAT, BLMOVE as LMOVE, a key that expired on the way as DEL).
    package static let replayedWrites: [[String]] = [
        ["HSETNX", "teller:claims:0", "digest", "user"], ["HSETNX", "teller:{0}:any", "field", "value"],
        ["HSET", "teller:{0}:any", "field", "value"], ["HDEL", "teller:{0}:any", "field"],
        ["RPUSH", "teller:{0}:any", "entry"], ["LPUSH", "teller:{0}:any", "job"], ["RPOP", "teller:{0}:any"],
        ["LMOVE", "teller:{0}:any", "teller:{0}:other", "RIGHT", "LEFT"], ["SET", "teller:{0}:any", "status"],
        ["DEL", "teller:{0}:any"], ["PEXPIREAT", "teller:{0}:any", "1"], ["ZADD", "teller:{0}:any", "1", "member"],
        ["ZREM", "teller:{0}:any", "member"], ["ZPOPMIN", "teller:{0}:any"],
        ["ZREMRANGEBYSCORE", "teller:{0}:any", "0", "1"],
    ]

    /// Redis 7 reads the append-only file as the user "default", although nobody logs in as that one.
    ///
    /// It checks each command between MULTI and EXEC, which is what a script leaves there, against its rights. What they do
    /// not allow is dropped, with a line in the log (https://github.com/redis/redis/issues/14541).
    private static func checkReader(
        _ redis: some RedisCommanding, _ findings: inout SafetyFindings
    ) async throws(RedisError) {
        for write in replayedWrites {
            do throws(RedisError) {
                let question = ["ACL", "DRYRUN", "default"] + write
                let answer = try await redis.send(question.map(RedisArgument.string), idempotent: true).text ?? ""
                guard answer != "OK" else { continue }
                let fix =
                    "put the line 'user default off resetpass ~* &* +@all' into redis.conf, then restart Redis. Never "
                    + "restart without that line: it would drop what scripts wrote, credits too (redis-cli ACL SETUSER "
                    + "default ~* &* +@all, if a user may, makes that safe at once)"
                findings.violations.append(SafetyViolation(rule: readerRule, found: answer, fix: fix))
            } catch  where error.kind == .noPermission {
                findings.doubts.append(notAllowed(readerRule, "ACL DRYRUN", "+acl|dryrun"))
            } catch  where error.isAnswer {
                findings.doubts.append(
                    SafetyViolation(
                        rule: readerRule, found: "unknown, since ACL DRYRUN failed (\(error))",
                        fix: "use Redis 7.0 or newer, and see \"default\" in deploy/redis.conf"))
            }
            // One command that is not allowed, or one refusal to tell, says it all.
            if !findings.doubts.isEmpty || findings.violations.last?.rule == readerRule { return }
        }
    }

    private static func notAllowed(_ rule: String, _ command: String, _ permission: String) -> SafetyViolation {
        SafetyViolation(
            rule: rule, found: "unknown, since the ACL user may not use \(command)",
            fix: "\(permission) on the line of that user in redis.conf, then restart Redis")
    }
}

extension RedisError {
    /// Whether the server answered, and not with one of the errors that have a kind of their own.
    fileprivate var isAnswer: Bool {
        if case .other = kind { true } else { false }
    }
}
