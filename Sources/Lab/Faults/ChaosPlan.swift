public import ServiceRuntime

/// What a chaos run does; the seed decides who is hit, when, and by what.
public struct ChaosPlan: Sendable {
    /// Receipts handed in, of all kinds together.
    public var receipts = 100_000
    /// Which kinds.
    public var mix = LoadPlan.Mix()
    /// How many clients hand in at once.
    public var concurrency = 200
    /// Receipts handed in a second, instead of as fast as the clients get answers; for small runs that should last.
    public var perSecond: Double?
    /// Processes of each role.
    public var apis = 2
    /// Processes of each role.
    public var workers = 3
    /// Mean time between two blows at a process; zero for none.
    public var strikeEvery = Duration.seconds(3)
    /// The share of blows that freeze a process (SIGSTOP for longer than a lease) instead of killing it.
    public var freezeShare = 0.2
    /// How often Redis goes away and comes back, spread evenly over the receipts.
    public var redisRestarts = 3
    /// Whether the stores fail now and then: slow, 503, 429, reset, hanging.
    public var storesFail = true
    /// Whether Teller reaches Redis through a proxy that cuts connections and turns into a black hole now and then.
    public var networkFails = false
    /// Decides everything that is decided by chance.
    public var seed: UInt64 = 1
    /// How many players buy.
    public var players = 2000
    /// How long the queues may take to drain at the end.
    public var settle = Duration.seconds(120)
    /// Orphans must be back this fast (99th percentile), and work must resume this fast after Redis's return.
    public var limits = (orphans: Duration.seconds(5), resume: Duration.seconds(2))

    /// The acceptance run.
    public init() {}
}

/// What a chaos run did and saw.
public struct ChaosReport: Sendable {
    /// What was done.
    public let plan: ChaosPlan
    /// The clients' side.
    public internal(set) var load = LoadReport()
    /// The wallets' side.
    public internal(set) var audit = AuditReport()
    /// Receipts of killed workers.
    public internal(set) var orphans = OrphanTimes()
    /// Redis away.
    public internal(set) var outages: [RedisOutage] = []
    /// Blows, by what and whom: "SIGKILL worker".
    public internal(set) var strikes: [String: Int] = [:]
    /// Processes that ended although nobody killed them.
    public internal(set) var endedByThemselves = 0
    /// Memory over time.
    public internal(set) var memory = MemoryCourse()

    /// Everything that is not as it must be, as sentences.
    public var complaints: [String] {
        var lines: [String] = []
        if !load.isClean { lines.append("clients were told wrong things, or nothing") }
        if !audit.isClean { lines.append("the audit found differences") }
        if endedByThemselves > 0 { lines.append("\(endedByThemselves) processes ended by themselves") }
        if audit.deadLetterCount > 0 { lines.append("\(audit.deadLetterCount) dead letters") }
        if orphans.neverSeen > 0 { lines.append("\(orphans.neverSeen) receipts of killed workers not back after 60 s") }
        let p99 = OrphanTimes.percentile(0.99, of: orphans.recoveries)
        if p99 > plan.limits.orphans { lines.append("orphans back after \(LabText.seconds(p99)) s at p99") }
        for outage in outages {
            guard let after = outage.resumedAfter else {
                lines.append("work did not resume after Redis was \(outage.kind.rawValue)")
                continue
            }
            if after > plan.limits.resume {
                lines.append("work resumed \(LabText.seconds(after)) s after Redis was \(outage.kind.rawValue)")
            }
        }
        return lines
    }

    /// Lines for people.
    public var text: String {
        func orphanLine(_ name: String, _ times: [Duration]) -> String {
            guard !times.isEmpty else { return "  \(name) none" }
            let shares = [("p50", 0.5), ("p99", 0.99), ("max", 1)]
            return "  \(name) \(times.count) receipts, back after "
                + shares.map { "\($0.0) \(LabText.milliseconds(OrphanTimes.percentile($0.1, of: times))) ms" }
                .joined(separator: ", ")
        }
        var lines = ["chaos: seed \(plan.seed), \(plan.receipts) receipts, \(plan.apis) APIs, \(plan.workers) workers"]
        for (what, count) in strikes.sorted(by: { $0.key < $1.key }) { lines.append("  \(what): \(count)") }
        lines.append("orphans: \(orphans.killsWithReceipts) of \(orphans.kills) killed workers held receipts")
        lines.append(orphanLine("while Redis was there:  ", orphans.recoveries))
        lines.append(orphanLine("across a Redis outage:  ", orphans.recoveriesAfterOutage))
        for (number, outage) in outages.enumerated() {
            let after = outage.resumedAfter.map { "first settled \(LabText.milliseconds($0)) ms after its return" }
            lines.append(
                "redis \(number + 1): \(outage.kind.rawValue), away \(LabText.seconds(outage.away)) s, "
                    + (after ?? "nothing settled within 10 s of its return"))
        }
        lines += memory.lines
        lines.append(load.text)
        lines.append(audit.text)
        lines.append(complaints.isEmpty ? "CLEAN" : "NOT CLEAN: " + complaints.joined(separator: "; "))
        return lines.joined(separator: "\n")
    }

    /// Writes the report as one JSON object's members.
    public func write(to json: inout JSONWriter) {
        json.member("seed", String(plan.seed))
        json.member("receipts", plan.receipts)
        json.member("clean", complaints.isEmpty)
        json.member("complaints", array: { json in for complaint in complaints { json.element(complaint) } })
        json.member("strikes", object: { LabText.write(strikes, to: &$0) })
        json.member(
            "orphans",
            object: { json in
                json.member("kills", orphans.kills)
                json.member("killsWithReceipts", orphans.killsWithReceipts)
                json.member("neverSeen", orphans.neverSeen)
                Self.write("recovery", orphans.recoveries, to: &json)
                Self.write("recoveryAfterOutage", orphans.recoveriesAfterOutage, to: &json)
            })
        json.member(
            "redisOutages",
            array: { json in
                for outage in outages {
                    json.object { json in
                        json.member("kind", outage.kind.rawValue)
                        json.member("awayMs", outage.away.inMilliseconds)
                        json.member("resumedAfterMs", outage.resumedAfter?.inMilliseconds)
                    }
                }
            })
        json.member("memory", object: { memory.write(to: &$0) })
        json.member("load", object: { load.write(to: &$0) })
        json.member("audit", object: { audit.write(to: &$0) })
    }

    private static func write(_ name: String, _ times: [Duration], to json: inout JSONWriter) {
        json.member(
            dynamic: name,
            object: { json in
                json.member("count", times.count)
                guard !times.isEmpty else { return }
                json.member("p50Ms", OrphanTimes.percentile(0.5, of: times).inMilliseconds)
                json.member("p99Ms", OrphanTimes.percentile(0.99, of: times).inMilliseconds)
                json.member("maxMs", OrphanTimes.percentile(1, of: times).inMilliseconds)
            })
    }
}
