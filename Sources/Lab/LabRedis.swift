import Foundation
import Jobs
import Redis
import ServiceRuntime

/// Where the Redis under test is, and who the lab is there.
///
/// The role needs to read everything, to run scripts and, to push onto lists, LPUSH: `teller-ops` of deploy/redis.conf.
public struct LabRedis: Sendable {
    /// `redis://[user[:password]@]host:port[/db]` or `unix:///path`.
    public var url: String
    /// The password, when it is not in the URL.
    public var password: String?

    /// Names a Redis.
    public init(url: String, password: String? = nil) {
        self.url = url
        self.password = password
    }

    func configuration() throws(LabError) -> RedisConfiguration {
        do throws(RedisAddressError) {
            return RedisConfiguration(address: try RedisAddress(url: urlWithPassword))
        } catch {
            throw .redis(error.description)
        }
    }

    /// The password, percent-encoded, behind the user that the URL names, if any.
    private var urlWithPassword: String {
        guard let password, let scheme = url.range(of: "://") else { return url }
        let encoded = password.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        let rest = url[scheme.upperBound...]
        let at = rest.firstIndex(of: "@")
        let user = at.map { rest[..<$0] } ?? ""
        let place = at.map { rest[rest.index(after: $0)...] } ?? rest
        return "\(url[..<scheme.upperBound])\(user):\(encoded)@\(place)"
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
