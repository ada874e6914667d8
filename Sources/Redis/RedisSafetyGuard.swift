public import ServiceRuntime

/// A Redis that was refused because it is not safe; the text is short, ``list`` says how to put each rule right.
public struct UnsafeRedis: Error, Equatable, Sendable, CustomStringConvertible {
    /// Every rule that does not hold.
    public let violations: [SafetyViolation]

    /// Which rules do not hold, without the fixes.
    public var description: String {
        "it is not safe to hold money: not " + violations.map(\.rule).joined(separator: ", not ")
    }

    /// Each rule with what was found instead and the fix, a line each.
    public var list: String { violations.map(\.description).joined(separator: "\n") }
}

/// Keeps every connection of a process from a Redis that is not safe, and tells the operator what to do.
///
/// Connections try again several times a second and there are three of them, so what is wrong is logged when it changes,
/// and once a minute while it lasts.
@LoopActor
public final class RedisSafetyGuard {
    private let allowUnsafe: Bool
    private let logger: Logger
    private let repeatAfter: Duration
    private var told = SafetyFindings()
    private var toldAt = MonotonicInstant.now

    /// Why the last server that was looked at is refused; nil when it is not.
    public private(set) var refusal: UnsafeRedis?

    /// Makes a guard.
    ///
    /// - Parameters:
    ///   - allowUnsafe: Says what is wrong, and lets the server pass all the same.
    ///   - logger: Where it is said.
    ///   - repeatAfter: How long the same is not said again.
    public init(allowUnsafe: Bool, logger: Logger, repeatAfter: Duration = .seconds(60)) {
        self.allowUnsafe = allowUnsafe
        self.logger = logger
        self.repeatAfter = repeatAfter
    }

    /// For ``RedisConfiguration/validate``.
    public var validation: RedisConfiguration.Validation { { try await self.admit($0) } }

    private func admit(_ redis: RedisHandshake) async throws {
        let findings = try await RedisSafety.check(redis)
        if findings != told || toldAt.elapsed >= repeatAfter { tell(findings) }
        refusal = allowUnsafe || findings.violations.isEmpty ? nil : UnsafeRedis(violations: findings.violations)
        if let refusal { throw refusal }
    }

    private func tell(_ findings: SafetyFindings) {
        func text(_ list: [SafetyViolation]) -> LogValue {
            .string(list.map(\.description).joined(separator: " | "))
        }
        if !findings.violations.isEmpty {
            let fields = ["violations": text(findings.violations)]
            if allowUnsafe {
                logger.warning("redis is not safe", fields)
            } else {
                logger.error("redis is not safe", fields)
            }
        } else if !told.violations.isEmpty {
            logger.notice("redis is safe again")
        }
        if !findings.doubts.isEmpty {
            logger.warning("redis may not be safe", ["unknown": text(findings.doubts)])
        }
        told = findings
        toldAt = .now
    }
}
