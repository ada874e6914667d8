import Commerce
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

    /// How long a command that somebody typed waits for a Redis that is there but not ready, because it starts.
    nonisolated static let patience = Duration.seconds(10)
    /// How long it waits for one that is not there, which is soon told: twice the time of one attempt.
    private nonisolated static let absencePatience = Duration.seconds(2)

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
                return try await redis.ready(within: limit == nil ? .seconds(5) : Self.absencePatience)
            } catch {
                // Told to stop: whoever waits for Redis is not stopped by its absence.
                if Task.isCancelled { throw error }
                let isThere = ![.notConnected, .connectionLost, .deadlineExceeded].contains(error.kind)
                let mayWait = limit.map { isThere && began.elapsed < $0 } ?? true
                guard error.isRetryable, mayWait else { throw explained(error) }
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
        guard let cause else { return error }
        let address = redisConfiguration.address
        switch cause.kind {
        case .refused: return safety.refusal.map { Explanation.refused($0) } ?? error
        case .noPermission: return Explanation.forbidden(user: address.user ?? "default", error: cause.message)
        case .noAuth, .wrongPassword: return Explanation.noLogin(address, error: cause.message)
        case .notConnected: return Explanation.absent(address, error: cause.message)
        case .deadlineExceeded, .connectionLost, .protocolError:
            return Explanation.silent(address, error: cause.message)
        case .loading: return Explanation.loading(address)
        default: return error
        }
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
            return try RedisAddress(
                url: configuration.redis.url.text, password: configuration.redis.password?.text)
        } catch {
            throw UsageError("redis.url: \(error)")
        }
    }

    /// Where the configuration was found, and what was found in it.
    static func read(
        _ arguments: Arguments, _ part: TellerConfiguration.Part
    ) throws -> (path: String?, TellerConfiguration?, TellerConfiguration.Findings) {
        let standard = "/etc/teller/teller.json"
        var environment = environment
        let named = environment.removeValue(forKey: "TELLER_CONFIG")
        let path = arguments.string("config") ?? named ?? (access(standard, R_OK) == 0 ? standard : nil)
        let json = try path.map { try contents(ofFile: $0) } ?? []
        let (configuration, findings) = TellerConfiguration.read(
            json: json, environment: environment, part: part, readFile: { try contents(ofFile: $0) })
        return (path, configuration, findings)
    }

    /// The environment of this process.
    private static var environment: [String: String] {
        var variables: [String: String] = [:]
        var next = environ
        while let variable = next.pointee {
            let parts = String(cString: variable).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { variables[String(parts[0])] = String(parts[1]) }
            next += 1
        }
        return variables
    }

    /// Reads a file, which may be a pipe or, if its name is "-" and that is allowed, standard input.
    ///
    /// No more than `bytesMax` of it is ever in memory: whoever means another file is told.
    nonisolated static func contents(
        ofFile path: String, bytesMax: Int = Limits.catalogueBytesMax, orStandardInput: Bool = false
    ) throws -> [UInt8] {
        func failure() -> UsageError { UsageError("\(path): \(String(cString: strerror(errno)))") }
        let file = orStandardInput && path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw failure() }
        defer { close(file) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= bytesMax {
            let count = Glibc.read(file, &part, part.count)
            if count == 0 { return bytes }
            if count > 0 { bytes += part[..<count] } else if errno != EINTR { throw failure() }
        }
        throw UsageError("\(path): is longer than \(bytesMax) bytes")
    }
}

/// What keeps a command from its Redis, as it is told to who typed it.
private enum Explanation: Error, CustomStringConvertible {
    case refused(UnsafeRedis)
    case forbidden(user: String, error: String)
    case noLogin(RedisAddress, error: String)
    case absent(RedisAddress, error: String)
    case silent(RedisAddress, error: String)
    case loading(RedisAddress)

    var description: String {
        switch self {
        case .refused(let refusal):
            "this Redis is not safe to hold money (--allow-unsafe-redis goes on all the same):\n  "
                + refusal.list.replacing("\n", with: "\n  ")
        case .forbidden(let user, let error):
            "Redis does not let the user \"\(user)\" do this (\(error)). Who may do what is in deploy/redis.conf; people "
                + "log in as teller-ops, with redis.url and redis.passwordFile."
        case .noLogin(let address, let error):
            "Redis at \(address) does not take the login of the user \"\(address.user ?? "default")\" (\(error)). The "
                + "user is in redis.url, the password in redis.passwordFile, its hash in redis.conf."
        case .absent(let address, let error):
            "there is no Redis at \(address): \(error). Does it run (systemctl status redis-server), and is redis.url "
                + "right?"
        case .silent(let address, let error):
            "what listens at \(address) does not answer as Redis does (\(error)). Does it hang (systemctl status "
                + "redis-server), and is redis.url right?"
        case .loading(let address):
            "Redis at \(address) has just started and reads its data from disk. Try again in a minute."
        }
    }
}
