import ServiceRuntime

/// Since when this worker's heartbeats have gone through without a gap, in Redis' time.
///
/// Only a worker with an unbroken pulse may judge others: after an outage of Redis (or of this worker's network) every
/// heartbeat is old, and the first one back would reap everybody.
struct Pulse {
    private(set) var lastMs: Int64?
    private(set) var sinceMs: Int64?

    /// A heartbeat was answered at `serverMs`.
    mutating func beat(serverMs: Int64, _ configuration: JobQueue.Configuration) {
        let period = configuration.leasePeriod.inMilliseconds
        if let lastMs, (0...period).contains(serverMs - lastMs) {
            self.lastMs = serverMs
        } else {
            lastMs = serverMs
            sinceMs = serverMs
        }
    }

    /// A heartbeat failed, or the connection is a new one.
    mutating func interrupt() {
        lastMs = nil
        sinceMs = nil
    }

    /// What a sweep shows to `reap.lua`; nil while it would be too early.
    func evidence(_ configuration: JobQueue.Configuration) -> (lastMs: Int64, sinceMs: Int64)? {
        guard let lastMs, let sinceMs, lastMs - sinceMs >= configuration.leasePeriod.inMilliseconds else { return nil }
        return (lastMs, sinceMs)
    }
}
