public import Redis
public import ServiceRuntime

/// What a partition is told about itself once, by `teller init`, for life.
///
/// Its absence or a change means that this is not the Redis in which the permanent marks are: everything then stops,
/// because a queue that goes on with empty marks credits every replayed receipt again.
public struct Meta: Sendable, Equatable {
    /// Names this life of the data: 128 random bits in hex.
    public let incarnation: String
    /// How many partitions the players are divided into.
    public let partitions: Int
    /// How many hashes the claims are divided into, so that each stays small.
    public let buckets: Int
    /// Version of keys and formats; this code knows ``schemaVersion``.
    public let schema: Int
    /// Load generators refuse a production Redis.
    public let isProduction: Bool
    /// When it was written, by Redis' clock.
    public let createdAt: UnixMilliseconds

    /// The version this code reads and writes.
    public static let schemaVersion = 1
    /// Default of ``buckets``: about 15 claims a bucket per million purchases, far below where a listpack ends.
    public static let bucketsDefault = 65_536

    /// What ``initialise(_:partitions:buckets:isProduction:)`` found or did.
    public enum Initialisation: Sendable, Equatable, CustomStringConvertible {
        /// The meta hash was written.
        case written(Meta)
        /// There was one already; nothing was changed.
        case alreadyThere(Meta)

        /// One sentence for the operator.
        public var description: String {
            switch self {
            case .written(let meta):
                "Initialised: incarnation \(meta.incarnation), \(meta.partitions) partition(s), \(meta.buckets) claim buckets, "
                    + "schema \(meta.schema), \(meta.isProduction ? "production" : "not production")."
            case .alreadyThere(let meta):
                "Already initialised at \(meta.createdAt.rfc3339) (incarnation \(meta.incarnation), \(meta.buckets) claim buckets, "
                    + "\(meta.isProduction ? "production" : "not production")); nothing was changed."
            }
        }
    }

    /// Why there is no meta to work with.
    public enum Problem: Error, Sendable, Equatable, CustomStringConvertible {
        /// Redis did not answer, or not as it should.
        case redis(RedisError)
        /// There is no meta hash: never initialised, wiped, or another Redis.
        case missing
        /// The meta hash lacks this field or holds nonsense in it.
        case invalid(field: String)
        /// Written by other code than this.
        case unknownSchema(Int)
        /// There are keys of Teller but no meta hash: it was lost, and a new one would hide that.
        case keysWithoutMeta(example: String)

        /// What to do about it.
        public var description: String {
            switch self {
            case .redis(let error): "Redis: \(error)"
            case .missing:
                "this Redis holds no meta hash: its data are lost, or it is another Redis than Teller's. Do not initialise it: "
                    + "restore the data (RUNBOOK.md, \"Restore\"), or correct redis.url. Only a Redis that never held "
                    + "anything is prepared with `teller init`"
            case .invalid(let field): "the meta hash has no valid field \(field): it was written by something else"
            case .unknownSchema(let schema): "the data have schema \(schema), this program knows \(Meta.schemaVersion)"
            case .keysWithoutMeta(let example):
                "there are Teller's keys (such as \(example)) but no meta hash: the data are damaged, restore them"
            }
        }
    }

    /// In what these data differ from a request to initialise them.
    ///
    /// - Parameters:
    ///   - buckets: nil when none were asked for.
    ///   - isProduction: only `true` asks for anything.
    /// - Returns: A line each, with what to do; none when the data are as asked.
    public func differences(fromBuckets buckets: Int?, isProduction: Bool) -> [String] {
        var lines: [String] = []
        if let buckets, buckets != self.buckets {
            lines.append(
                "These data have \(self.buckets) claim buckets, not \(buckets), and keep them for life: leave --buckets out, "
                    + "or take an empty Redis.")
        }
        if isProduction, !self.isProduction {
            lines.append(
                "These data are not marked as production. If they are a test's, take an empty Redis; if they are "
                    + "production's, mark them: redis-cli HSET '\(JobKeys(partition: 0).meta)' production 1")
        }
        return lines
    }

    /// Writes the meta hash of a new Redis; never over an existing one.
    @LoopActor
    public static func initialise(
        _ redis: RedisConnection, partitions: Int = 1, buckets: Int = bucketsDefault, isProduction: Bool
    ) async throws(Problem) -> Initialisation {
        precondition(partitions == 1 && buckets > 0, "one partition for now, and at least one bucket")
        let key = RedisArgument.string(JobKeys(partition: 0).meta)
        do throws(Problem) {
            return .alreadyThere(try await read(redis))
        } catch {
            guard error == .missing else { throw error }
        }
        try await refuseForeignKeys(redis)
        var generator = SystemRandomNumberGenerator()
        let random = [generator.next(), generator.next()] as [UInt64]
        let incarnation = random.map { half in
            let digits = String(half, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
        do throws(RedisError) {
            let written = try await redis.evaluate(
                JobScripts.initialise, keys: [key],
                arguments: [
                    .string(incarnation), .int(Int64(partitions)), .int(Int64(buckets)), .int(Int64(schemaVersion)),
                    isProduction ? "1" : "0",
                ])
            let meta = try await redis.send(["HGETALL", key], idempotent: true)
            do throws(Problem) {
                return written.int == 1 ? .written(try Meta(meta)) : .alreadyThere(try Meta(meta))
            } catch {
                throw RedisError(.protocolError, "\(error)")
            }
        } catch {
            throw .redis(error)
        }
    }

    /// Reads the meta hash of a partition.
    @LoopActor
    public static func read(_ redis: RedisConnection, partition: Int = 0) async throws(Problem) -> Meta {
        let reply: RedisValue
        do throws(RedisError) {
            reply = try await redis.send(["HGETALL", .string(JobKeys(partition: partition).meta)], idempotent: true)
        } catch {
            throw .redis(error)
        }
        return try Meta(reply)
    }

    private init(_ reply: RedisValue) throws(Problem) {
        guard let elements = reply.elements, !elements.isEmpty else { throw .missing }
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: elements.count - 1, by: 2) {
            if let name = elements[index].text { fields[name] = elements[index + 1].text }
        }
        func number(_ name: String) throws(Problem) -> Int {
            guard let value = fields[name].flatMap({ Int($0) }), value >= 0 else { throw .invalid(field: name) }
            return value
        }
        schema = try number("schema")
        guard schema == Self.schemaVersion else { throw .unknownSchema(schema) }
        guard let incarnation = fields["incarnation"], !incarnation.isEmpty else {
            throw .invalid(field: "incarnation")
        }
        self.incarnation = incarnation
        partitions = try number("partitions")
        buckets = try number("buckets")
        guard partitions > 0 else { throw .invalid(field: "partitions") }
        guard buckets > 0 else { throw .invalid(field: "buckets") }
        isProduction = try number("production") == 1
        createdAt = UnixMilliseconds(Int64(try number("createdAtMs")))
    }

    /// Looks through the keyspace in steps; a Redis that was never used answers at once.
    @LoopActor
    private static func refuseForeignKeys(_ redis: RedisConnection) async throws(Problem) {
        var cursor = "0"
        repeat {
            let parts: [RedisValue]
            do throws(RedisError) {
                parts =
                    try await redis.send(
                        ["SCAN", .string(cursor), "MATCH", "teller:*", "COUNT", "1000"], idempotent: true
                    ).elements ?? []
            } catch {
                throw .redis(error)
            }
            guard parts.count == 2 else { throw .redis(RedisError(.protocolError, "SCAN: unexpected answer")) }
            // A pending list is allowed: another program may have pushed before anybody initialised.
            if let example = parts[1].elements?.compactMap(\.text).first(where: { !$0.contains(":pending:") }) {
                throw .keysWithoutMeta(example: example)
            }
            cursor = parts[0].text ?? "0"
        } while cursor != "0"
    }
}
