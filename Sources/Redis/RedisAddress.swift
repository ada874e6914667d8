/// Where a Redis is and how to log in: `redis://user:password@host:port/db` or `unix:///path?db=n`.
///
/// It holds a password, so every text it can be turned into is ``redacted``.
public struct RedisAddress: Sendable, Equatable {
    /// The place to connect to.
    public enum Endpoint: Sendable, Equatable {
        /// A name or numeric address (IPv6 without brackets) and a port.
        case tcp(host: String, port: Int)
        /// The path of a unix socket.
        case unix(path: String)
    }

    /// The place to connect to.
    public let endpoint: Endpoint
    /// The ACL user; nil is the server's `default` user.
    public let user: String?
    /// The password; nil sends no AUTH.
    let password: String?
    /// The database number for SELECT.
    public let database: Int

    /// Makes an address from its parts.
    public init(_ endpoint: Endpoint, database: Int = 0) {
        self.endpoint = endpoint
        self.database = database
        user = nil
        password = nil
    }

    /// Reads a URL; every part is percent-decoded.
    ///
    /// - Parameters:
    ///   - url: with a password, or with a user alone or none when there is `another`.
    ///   - another: the password as it is, from a file of its own; counts instead of the URL's.
    /// - Throws: ``RedisAddressError``, which names the part that is wrong.
    public init(url: String, password another: String? = nil) throws(RedisAddressError) {
        guard let schemeEnd = url.firstRange(of: "://") else { throw .init("has no scheme: write redis://host:port") }
        let rest = url[schemeEnd.upperBound...]
        switch url[..<schemeEnd.lowerBound].lowercased() {
        case "redis": try self.init(tcp: rest, another)
        case "unix": try self.init(unix: rest, another)
        case "rediss":
            throw .init(
                "rediss:// (TLS) is not possible with the linked hiredis: "
                    + "run a tunnel (stunnel, ghostunnel) beside Teller and give its local address with redis://")
        default: throw .init("has an unknown scheme: write redis:// or unix://")
        }
    }

    /// The URL with `***` for the password.
    public var redacted: String {
        let login = password == nil ? "" : "\(user ?? ""):***@"
        switch endpoint {
        case .tcp(let host, let port):
            let shown = host.contains(":") ? "[\(host)]" : host
            return "redis://\(login)\(shown):\(port)/\(database)"
        case .unix(let path): return "unix://\(login)\(path)?db=\(database)"
        }
    }
}

extension RedisAddress: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Same as ``redacted``.
    public var description: String { redacted }
    /// Same as ``redacted``.
    public var debugDescription: String { redacted }
    /// Shows only ``redacted``, so that `dump` cannot print the password.
    public var customMirror: Mirror { Mirror(self, children: ["address": redacted]) }
}

/// What is wrong with an address; never contains the address, which may hold a password.
public struct RedisAddressError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A sentence that starts with "the Redis address".
    public let description: String

    init(_ problem: String) { description = "the Redis address \(problem)" }
}

extension RedisAddress {
    /// Databases a server can have at most: `databases` is an int, and nobody has more.
    static let databaseMax = 65_535
    /// `sockaddr_un.sun_path` with its terminating zero (unix(7)).
    static let socketPathBytesMax = 107

    private init(tcp text: Substring, _ another: String?) throws(RedisAddressError) {
        let (location, query) = Self.split(text, at: "?")
        let (authority, path) = Self.split(location, at: "/")
        let (login, place) = try Self.login(of: authority, another)
        let (host, port) = try Self.hostAndPort(place)
        endpoint = .tcp(host: host, port: port)
        let fromQuery = try Self.database(inQuery: query)
        switch (path ?? "", fromQuery) {
        case ("", let number): database = number ?? 0
        case (let number, nil): database = try Self.database(number)
        default: throw .init("names the database twice")
        }
        user = login?.user
        password = login?.password
    }

    private init(unix text: Substring, _ another: String?) throws(RedisAddressError) {
        let (location, query) = Self.split(text, at: "?")
        guard let slash = location.firstIndex(of: "/") else { throw .init("has no socket path: write unix:///path") }
        let (login, place) = try Self.login(of: location[..<slash], another)
        guard place.isEmpty else { throw .init("has a host before the socket path: write unix:///path") }
        let path = try Self.decoded(location[slash...])
        guard path.utf8.count > 1, path.utf8.count <= Self.socketPathBytesMax else {
            throw .init("has a socket path that is empty or longer than \(Self.socketPathBytesMax) bytes")
        }
        endpoint = .unix(path: path)
        database = try Self.database(inQuery: query) ?? 0
        user = login?.user
        password = login?.password
    }

    private static func split(_ text: Substring, at separator: Character) -> (Substring, Substring?) {
        guard let index = text.firstIndex(of: separator) else { return (text, nil) }
        return (text[..<index], text[text.index(after: index)...])
    }

    /// What is before and after the @; the password `another` counts instead of the written one.
    private static func login(
        of authority: Substring, _ another: String?
    ) throws(RedisAddressError) -> (login: (user: String?, password: String)?, place: Substring) {
        guard let at = authority.lastIndex(of: "@") else { return (another.map { (nil, $0) }, authority) }
        let place = authority[authority.index(after: at)...]
        let (user, written) = split(authority[..<at], at: ":")
        let name = try decoded(user)
        switch (another, written) {
        case (let password?, _): return ((name.isEmpty ? nil : name, password), place)
        case (nil, let password?): return ((name.isEmpty ? nil : name, try decoded(password)), place)
        case (nil, nil):
            throw .init(
                "has only one word before @: name a file with the password, or write user:password@ (:password@ for the "
                    + "default user)")
        }
    }

    private static func hostAndPort(_ place: Substring) throws(RedisAddressError) -> (String, Int) {
        var host = place
        var port: Substring?
        if place.first == "[" {
            guard let end = place.firstIndex(of: "]") else { throw .init("has an IPv6 address without its ]") }
            host = place[place.index(after: place.startIndex)..<end]
            let rest = place[place.index(after: end)...]
            guard rest.isEmpty || rest.first == ":" else { throw .init("has text between ] and the port") }
            port = rest.isEmpty ? nil : rest.dropFirst()
        } else {
            (host, port) = split(place, at: ":")
            guard port?.contains(":") != true else { throw .init("has an IPv6 address without [ ]") }
        }
        let name = try decoded(host)
        guard !name.isEmpty else { throw .init("has no host") }
        guard let port else { return (name, 6379) }
        guard let number = Int(port), (1...65_535).contains(number) else { throw .init("has a port outside 1…65535") }
        return (name, number)
    }

    private static func database(inQuery query: Substring?) throws(RedisAddressError) -> Int? {
        guard let query, !query.isEmpty else { return nil }
        let (name, value) = split(query, at: "=")
        guard name == "db", let value else { throw .init("has an unknown option after ?: only db=n is known") }
        return try database(value)
    }

    private static func database(_ text: Substring) throws(RedisAddressError) -> Int {
        guard let number = Int(text), (0...databaseMax).contains(number), text.first != "+" else {
            throw .init("has a database that is not a number from 0 to \(databaseMax)")
        }
        return number
    }

    /// Percent-decoding (RFC 3986 §2.1).
    private static func decoded(_ text: Substring) throws(RedisAddressError) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            guard digits.count == 2, let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16) else {
                throw .init("has a % that is not followed by two hexadecimal digits")
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
            throw .init("has a part that is not UTF-8 text")
        }
        return text
    }
}
