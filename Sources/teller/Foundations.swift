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
        redisConfiguration = RedisConfiguration(
            address: try Self.address(configuration),
            validate: Self.validation(logger, allowUnsafe: configuration.redis.allowUnsafe))
        redis = RedisConnection(redisConfiguration, logger: logger, metrics: metrics)
    }

    /// How long a command that somebody typed waits for Redis.
    nonisolated static let patience = Duration.seconds(10)

    /// Connects, and reads what `teller init` wrote; refuses a Redis that is wrong, and waits for one that is not there
    /// yet: for up to `limit`, or for ever.
    func connect(within limit: Duration? = nil) async throws -> Meta {
        redis.start()
        let began = MonotonicInstant.now
        while true {
            do throws(RedisError) {
                try await redis.ready(within: min(limit ?? .seconds(5), .seconds(5)))
                break
            } catch {
                guard error.isRetryable, limit.map({ began.elapsed < $0 }) ?? true else { throw error }
                logger.warning("waiting for redis", ["error": .string(error.description)])
            }
        }
        return try await Meta.read(redis)
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

    private static func validation(_ logger: Logger, allowUnsafe: Bool) -> RedisConfiguration.Validation {
        { handshake in
            for violation in try await RedisSafety.check(handshake) {
                if allowUnsafe {
                    logger.warning("redis is not safe", ["violation": .string(violation.description)])
                    continue
                }
                logger.error("redis is not safe", ["violation": .string(violation.description)])
                throw violation
            }
        }
    }
}
