import Redis

/// The Lua scripts of `Scripts/`, compiled into the binary.
enum LedgerScripts {
    static let finish = script("finish", PackageResources.finish_lua)
    static let claim = script("claim", PackageResources.claim_lua)
    static let credited = script("credited", PackageResources.credited_lua)
    static let wallet = script("wallet", PackageResources.wallet_lua)
    static let history = script("history", PackageResources.history_lua)

    private static func script(_ name: String, _ text: [UInt8]) -> RedisScript {
        RedisScript(name: name, text: String(decoding: text, as: UTF8.self))
    }
}
