import Redis

/// Every Redis key of this module, derived in one place.
///
/// All share the hash tag `{p}`: one partition is one slot.
struct JobKeys: Sendable {
    /// Begins every key of the partition.
    let prefix: String
    let meta: String
    let workers: String
    /// Since when heartbeats have come without a long pause, anybody's; and by how much Redis's clock was ever set
    /// back.
    let pulse: String
    /// Which workers lease suspects, of whatever queue; each until when, by Redis' clock.
    let wards: String
    let dead: String
    let deadIndex: String
    let pendingPrefix: String
    let settledChannel: String

    init(partition: Int) {
        let prefix = "teller:{\(partition)}:"
        self.prefix = prefix
        meta = prefix + "meta"
        workers = prefix + "workers"
        pulse = prefix + "pulse"
        wards = prefix + "wards"
        dead = prefix + "dead"
        deadIndex = prefix + "dead:index"
        pendingPrefix = prefix + "pending:"
        settledChannel = prefix + "settled"
    }

    /// The keys of one queue (a store, or its duties).
    struct Queue: Sendable {
        let pending: String
        let arrived: String
        let suspects: String
        let retry: String
    }

    func queue(_ name: String) -> Queue {
        Queue(
            pending: pendingPrefix + name, arrived: prefix + "arrived:" + name, suspects: prefix + "suspects:" + name,
            retry: prefix + "retry:" + name)
    }

    func running(_ worker: WorkerID) -> String { prefix + "running:" + worker.text }

    func status(_ submission: String) -> String { prefix + "status:" + submission }
}
