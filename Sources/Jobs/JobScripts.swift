import Redis

/// The Lua scripts, one per transition, as they are sent: the files of `Scripts/` with `prelude.lua` behind the first line.
///
/// The first line (`#!lua …`) must stay first: with it Redis refuses a script as a whole when memory is full, or runs it as
/// a whole (`allow-oom`); without it a script would be stopped in its middle, and Redis rolls nothing back.
enum JobScripts {
    static let initialise = RedisScript(
        name: "initialise", text: String(decoding: PackageResources.initialise_lua, as: UTF8.self))
    static let enqueue = script("enqueue", PackageResources.enqueue_lua)
    static let heartbeat = script("heartbeat", PackageResources.heartbeat_lua)
    static let leave = script("leave", PackageResources.leave_lua)
    static let lease = script("lease", PackageResources.lease_lua)
    static let identify = script("identify", PackageResources.identify_lua)
    static let settle = script("settle", PackageResources.settle_lua)
    static let retry = script("retry", PackageResources.retry_lua)
    static let bury = script("bury", PackageResources.bury_lua)
    static let release = script("release", PackageResources.release_lua)
    static let reap = script("reap", PackageResources.reap_lua)
    static let replay = script("replay", PackageResources.replay_lua)
    static let drop = script("drop", PackageResources.drop_lua)
    static let waiting = script("waiting", PackageResources.waiting_lua)

    private static func script(_ name: String, _ body: [UInt8]) -> RedisScript {
        let text = String(decoding: body, as: UTF8.self)
        let firstLine = text.prefix { $0 != "\n" }
        let prelude = String(decoding: PackageResources.prelude_lua, as: UTF8.self)
        return RedisScript(name: name, text: firstLine + "\n" + prelude + text.dropFirst(firstLine.count))
    }
}
