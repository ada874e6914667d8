// Lab: load on a running Teller, and proof of what the load left behind. Nothing of it belongs to production.
//
// Exactly-once cannot be seen from inside: the code that would double a credit would also count it as one. So a run has
// a ground truth that Teller never sees. `LoadGenerator` buys at the emulated stores, which write down who bought what,
// hands the receipts in as game servers would, also twice, by the wrong player, forged and unpaid, and notes what it was
// told. `Audit` then reads Redis with eyes of its own (it shares keys and formats with the ledger only by their
// documentation) and holds every wallet against what the stores sold. A crash of the lab loses the run, nothing else;
// the audit can be run again by itself.

/// Why the lab does not do, or cannot do, what it was asked for.
public enum LabError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The Redis is somebody's real one.
    case productionRedis
    /// The plan contradicts itself.
    case impossiblePlan(String)
    /// The emulator does not answer, or not as it should.
    case emulator(String)
    /// Redis does not answer, or not as it should.
    case redis(String)
    /// What the fault harness needs could not be started.
    case stage(String)

    /// One sentence.
    public var description: String {
        switch self {
        case .productionRedis:
            "this Redis is marked as production: the lab makes up purchases and never touches real wallets"
        case .impossiblePlan(let reason): reason
        case .emulator(let reason): "store emulator: \(reason)"
        case .redis(let reason): "redis: \(reason)"
        case .stage(let reason): "fault harness: \(reason)"
        }
    }
}
