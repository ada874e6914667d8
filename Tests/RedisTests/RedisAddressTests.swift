import Redis
import Testing

@Suite struct RedisAddressTests {
    struct Good: Sendable {
        let url: String
        let endpoint: RedisAddress.Endpoint
        var user: String?
        var database = 0
        let redacted: String
    }

    static let good = [
        Good(
            url: "redis://h", endpoint: .tcp(host: "h", port: 6379), redacted: "redis://h:6379/0"),
        Good(
            url: "redis://h:7000/3", endpoint: .tcp(host: "h", port: 7000), database: 3, redacted: "redis://h:7000/3"),
        Good(url: "REDIS://h?db=4", endpoint: .tcp(host: "h", port: 6379), database: 4, redacted: "redis://h:6379/4"),
        Good(
            url: "redis://bob:s%40%3Acret@h:1/", endpoint: .tcp(host: "h", port: 1), user: "bob",
            redacted: "redis://bob:***@h:1/0"),
        Good(url: "redis://:p:q@h", endpoint: .tcp(host: "h", port: 6379), redacted: "redis://:***@h:6379/0"),
        Good(url: "redis://[::1]:99", endpoint: .tcp(host: "::1", port: 99), redacted: "redis://[::1]:99/0"),
        Good(url: "unix:///run/r.sock", endpoint: .unix(path: "/run/r.sock"), redacted: "unix:///run/r.sock?db=0"),
        Good(
            url: "unix://u:pw@/r%20s?db=2", endpoint: .unix(path: "/r s"), user: "u", database: 2,
            redacted: "unix://u:***@/r s?db=2"),
    ]

    @Test(arguments: good) func readsEveryPart(_ row: Good) throws {
        let address = try RedisAddress(url: row.url)
        #expect(address.endpoint == row.endpoint)
        #expect(address.user == row.user)
        #expect(address.database == row.database)
        #expect(address.redacted == row.redacted)
    }

    @Test(arguments: [
        ("h:6379", "no scheme"), ("http://h", "unknown scheme"), ("rediss://h", "tunnel"), ("redis://", "no host"),
        ("redis://h:0", "port"), ("redis://h:65536", "port"), ("redis://h:x", "port"), ("redis://secret@h", "one word"),
        ("redis://h/x", "database"), ("redis://h/-1", "database"), ("redis://h/99999", "database"),
        ("redis://h/1?db=1", "twice"), ("redis://h?tls=1", "option"), ("redis://::1", "without [ ]"),
        ("redis://[::1", "]"), ("redis://u:%zz@h", "hexadecimal"), ("redis://u:%00@h", "UTF-8"),
        ("unix://host/path", "host before"), ("unix://", "socket path"), ("unix:///", "socket path"),
        ("unix:///" + String(repeating: "x", count: 200), "107"),
    ])
    func refusesWithTheReasonAndWithoutTheText(_ url: String, _ reason: String) {
        let error = #expect(throws: RedisAddressError.self) { try RedisAddress(url: url) }
        #expect(error?.description.contains(reason) == true)
        #expect(error?.description.contains("secret") == false)
    }

    @Test func noTextOfAnAddressHasThePassword() throws {
        let address = try RedisAddress(url: "redis://user:hunter2@h")
        let configuration = RedisConfiguration(address: address)
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(address)", String(reflecting: address), "\(configuration)", dumped] {
            #expect(!text.contains("hunter2"))
        }
    }

    /// As it is, also where a URL would need it percent-encoded.
    @Test(arguments: [
        ("redis://api@h", "redis://api:%2F%3A%40%25@h"), ("redis://api:other@h", "redis://api:%2F%3A%40%25@h"),
        ("redis://h", "redis://:%2F%3A%40%25@h"), ("redis://@h:7/1", "redis://:%2F%3A%40%25@h:7/1"),
        ("unix://api@/r.sock?db=2", "unix://api:%2F%3A%40%25@/r.sock?db=2"),
        ("unix:///r.sock", "unix://:%2F%3A%40%25@/r.sock"),
    ])
    func takesThePasswordFromElsewhere(url: String, same: String) throws {
        #expect(try RedisAddress(url: url, password: "/:@%") == RedisAddress(url: same))
    }
}
