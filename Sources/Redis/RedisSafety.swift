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

/// The settings without which a Redis must not hold money (design §5): every acknowledged write is on disk, nothing is
/// evicted, and the server is the primary.
@LoopActor
public struct RedisSafety {
    private struct Rule {
        let setting: String
        let value: String
        let why: String
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

    /// Asks the server (CONFIG GET, ROLE) and returns what is wrong; empty when all is well.
    ///
    /// - Throws: When the server cannot be asked at all. A missing permission is a violation, not an error.
    public static func check(_ redis: some RedisCommanding) async throws(RedisError) -> [SafetyViolation] {
        var violations: [SafetyViolation] = []
        for rule in rules {
            let found: String
            do throws(RedisError) {
                let reply = try await redis.send(["CONFIG", "GET", .string(rule.setting)], idempotent: true)
                found = reply.elements?.dropFirst().first?.text ?? "nothing (the server does not know the setting)"
            } catch  where error.kind == .noPermission {
                violations.append(notAllowed("\(rule.setting) \(rule.value)", "CONFIG GET", "+config|get"))
                continue
            }
            guard found != rule.value else { continue }
            let fix =
                "redis-cli CONFIG SET \(rule.setting) \(rule.value), and the line \"\(rule.setting) \(rule.value)\" in "
                + "redis.conf (\(rule.why))"
            violations.append(SafetyViolation(rule: "\(rule.setting) \(rule.value)", found: found, fix: fix))
        }
        if let violation = try await checkRole(redis) { violations.append(violation) }
        return violations
    }

    private static func checkRole(_ redis: some RedisCommanding) async throws(RedisError) -> SafetyViolation? {
        do throws(RedisError) {
            let role = try await redis.send(["ROLE"], idempotent: true).elements?.first?.text ?? "nothing"
            guard role != "master" else { return nil }
            return SafetyViolation(
                rule: "role master", found: role,
                fix: "give the primary's address, or redis-cli REPLICAOF NO ONE if this server is to be the primary")
        } catch  where error.kind == .noPermission {
            return notAllowed("role master", "ROLE", "+role")
        }
    }

    private static func notAllowed(_ rule: String, _ command: String, _ permission: String) -> SafetyViolation {
        SafetyViolation(
            rule: rule, found: "unknown, since the ACL user may not use \(command)",
            fix: "redis-cli ACL SETUSER <user> \(permission)")
    }
}
