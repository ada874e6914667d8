import Commerce
import Foundation
import Glibc
import Jobs
import Ledger
import Operations
import Redis
import ServiceRuntime
import Verification

/// What every command that touches Redis stands on: configuration, log, metrics, a checked connection, the meta hash.
@LoopActor
struct Foundations {
    let configuration: TellerConfiguration
    let logger: Logger
    let sink: LogSink
    let metrics = Metrics()
    let redisConfiguration: RedisConfiguration
    let redis: RedisConnection
    let safety: RedisSafetyGuard

    /// Options that every command with a configuration has.
    nonisolated static let options = [
        Command.Option("config", "FILE", "configuration file (default: /etc/teller/teller.json if it is there)"),
        Command.Option("allow-unsafe-redis", nil, "go on although Redis could lose acknowledged credits"),
    ]

    /// Reads the configuration and makes the rest of it; nothing is sent yet.
    ///
    /// Commands that print for people log only what is at least as severe as `logLevel`.
    init(
        _ arguments: Arguments, label: String, part: TellerConfiguration.Part = .front, logLevel: LogLevel? = nil
    ) throws {
        var (configuration, warnings) = try Self.configuration(arguments, part)
        if arguments.has("allow-unsafe-redis") { configuration.redis.allowUnsafe = true }
        self.configuration = configuration
        sink = LogSink(format: configuration.logFormat)
        logger = Logger(label: label, sink: sink, level: logLevel ?? configuration.logLevel)
        for warning in warnings { logger.warning("configuration", ["message": .string(warning)]) }
        // Who typed the command is told by its exit.
        safety = RedisSafetyGuard(
            allowUnsafe: configuration.redis.allowUnsafe,
            logger: logLevel == nil || configuration.redis.allowUnsafe ? logger : .disabled)
        redisConfiguration = RedisConfiguration(
            address: try Self.address(configuration),
            validate: safety.validation)
        redis = RedisConnection(redisConfiguration, logger: logger, metrics: metrics)
    }

    /// How long a command that somebody typed waits for Redis.
    nonisolated static let patience = Duration.seconds(10)

    /// Connects, and reads what `teller init` wrote; refuses a Redis that is wrong, and waits for one that is not there
    /// yet: for up to `limit`, or for ever.
    func connect(within limit: Duration? = nil) async throws -> Meta {
        try await waitForRedis(within: limit)
        return try await Meta.read(redis)
    }

    /// Connects to a Redis that may not have been initialised; else as ``connect(within:)``.
    func waitForRedis(within limit: Duration? = nil) async throws {
        redis.start()
        let began = MonotonicInstant.now
        while true {
            do throws(RedisError) {
                return try await redis.ready(within: min(limit ?? .seconds(5), .seconds(5)))
            } catch {
                guard error.isRetryable, limit.map({ began.elapsed < $0 }) ?? true else { throw explained(error) }
                logger.warning("waiting for redis", ["error": .string(error.description)])
            }
        }
    }

    /// Why Redis cannot be used at the moment, for `/readyz`; nil when it can.
    var redisTrouble: String? {
        redis.failure.map { $0.kind == .refused ? safety.refusal?.list ?? $0.description : $0.description }
    }

    /// An error of Redis in the words of who can do something about it; others as they are.
    func explained(_ error: any Error) -> any Error {
        var cause = error as? RedisError
        if let problem = error as? Meta.Problem, case .redis(let error) = problem { cause = error }
        switch cause?.kind {
        case .refused: return safety.refusal.map { Explanation.refused($0) } ?? error
        case .noPermission, .noAuth, .wrongPassword:
            let user = redisConfiguration.address.user ?? "default"
            return Explanation.forbidden(user: user, error: "\(cause?.message ?? "")")
        default: return error
        }
    }

    func catalogue() throws -> Catalogue {
        let bytes = try Self.contents(ofFile: configuration.cataloguePath)
        return try Catalogue(json: bytes)
    }

    func jobs(_ meta: Meta, worker: WorkerID? = nil) -> JobQueue {
        var limits = JobQueue.Configuration()
        limits.pendingMax = configuration.api.pendingMax
        return JobQueue(
            redis: redis, incarnation: meta.incarnation, worker: worker, blocking: redisConfiguration,
            configuration: limits, logger: logger, metrics: metrics)
    }

    func ledger(_ meta: Meta) -> Ledger {
        Ledger(redis: redis, configuration: .init(buckets: meta.buckets, incarnation: meta.incarnation))
    }

    // MARK: - Reading

    /// The configuration that options and environment name; every mistake is told.
    private static func configuration(
        _ arguments: Arguments, _ part: TellerConfiguration.Part
    ) throws -> (TellerConfiguration, warnings: [String]) {
        let (path, configuration, findings) = try read(arguments, part)
        guard let configuration else {
            let list = findings.mistakes.map { "  \($0)" }.joined(separator: "\n")
            throw UsageError("the configuration (\(path ?? "environment only")) has mistakes:\n\(list)")
        }
        return (configuration, findings.warnings)
    }

    static func address(_ configuration: TellerConfiguration) throws -> RedisAddress {
        do {
            return try RedisAddress(url: configuration.redis.url.text)
        } catch {
            throw UsageError("redis.url: \(error)")
        }
    }

    /// Where the configuration was found, and what was found in it.
    static func read(
        _ arguments: Arguments, _ part: TellerConfiguration.Part
    ) throws -> (path: String?, TellerConfiguration?, TellerConfiguration.Findings) {
        let standard = "/etc/teller/teller.json"
        var environment = ProcessInfo.processInfo.environment
        let named = environment.removeValue(forKey: "TELLER_CONFIG")
        let path =
            arguments.string("config") ?? named
            ?? (FileManager.default.isReadableFile(atPath: standard) ? standard : nil)
        let json = try path.map { try contents(ofFile: $0) } ?? []
        let (configuration, findings) = TellerConfiguration.read(
            json: json, environment: environment, part: part, readFile: contents(ofFile:))
        return (path, configuration, findings)
    }

    nonisolated static func contents(ofFile path: String) throws -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else {
            let reason = access(path, R_OK) == 0 ? "cannot be read" : String(cString: strerror(errno))
            throw UsageError("\(path): \(reason)")
        }
        return [UInt8](data)
    }
}

/// What keeps a command from its Redis, as it is told to who typed it.
private enum Explanation: Error, CustomStringConvertible {
    case refused(UnsafeRedis)
    case forbidden(user: String, error: String)

    var description: String {
        switch self {
        case .refused(let refusal):
            "this Redis is not safe to hold money (--allow-unsafe-redis goes on all the same):\n  "
                + refusal.list.replacing("\n", with: "\n  ")
        case .forbidden(let user, let error):
            "Redis does not let the user \"\(user)\" do this (\(error)). Who may do what is in deploy/redis.conf; people "
                + "log in as teller-ops, with redis.url and redis.passwordFile."
        }
    }
}
