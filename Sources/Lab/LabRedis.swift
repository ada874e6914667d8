import Jobs
import Redis
import ServiceRuntime

/// Where the Redis under test is, and who the lab is there.
///
/// The role needs to read everything, to run scripts and, to push onto lists, LPUSH: `teller-ops` of deploy/redis.conf.
public struct LabRedis: Sendable {
    /// `redis://[user[:password]@]host:port[/db]` or `unix:///path`.
    public var url: String
    /// The password as it is, when it is not in the URL.
    public var password: String?

    /// Names a Redis.
    public init(url: String, password: String? = nil) {
        self.url = url
        self.password = password
    }

    func configuration() throws(LabError) -> RedisConfiguration {
        do throws(RedisAddressError) {
            return RedisConfiguration(address: try RedisAddress(url: url, password: password))
        } catch {
            throw .redis(error.description)
        }
    }

    /// Throws when this Redis is production, or cannot be asked.
    @LoopActor
    func refuseProduction() async throws { try await connect().connection.stop() }

    /// Connects, reads the meta hash and refuses production; the caller stops the connection.
    @LoopActor
    func connect() async throws -> (connection: RedisConnection, meta: Meta) {
        let connection = RedisConnection(try configuration(), logger: .disabled, metrics: nil)
        connection.start()
        do {
            try await connection.ready(within: .seconds(10))
            let meta = try await Meta.read(connection)
            guard !meta.isProduction else { throw LabError.productionRedis }
            return (connection, meta)
        } catch {
            await connection.stop()
            throw error as? LabError ?? LabError.redis("\(error)")
        }
    }
}
