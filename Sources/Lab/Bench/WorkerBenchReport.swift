import Glibc
public import ServiceRuntime

/// What a worker did with the receipts that waited for it.
public struct WorkerBenchReport: Sendable {
    /// Which list.
    public let store: String
    /// How late the store's answers were.
    public let latency: Duration
    /// From the RENAME to the last credit.
    public internal(set) var took: Duration = .zero
    /// Credits in that time.
    public internal(set) var credited = 0
    /// False when the limit came first.
    public internal(set) var isComplete = false
    /// CPU and memory in that time, by the name each process was given.
    public internal(set) var processes: [(name: String, usage: ProcessUsage)] = []
    /// CPU time of everybody else on the machine.
    public internal(set) var others: Duration = .zero
    /// What a purchase costs in memory, if that was asked for.
    public internal(set) var memory: MemoryPrice?

    /// Credits a second.
    public var perSecond: Double { took > .zero ? Double(credited) / took.inSeconds : 0 }

    /// Share of all processors that others used: above a tenth the run says little.
    public var othersShare: Double {
        let capacity = took.inSeconds * Double(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return capacity > 0 ? max(0, others.inSeconds / capacity) : 0
    }

    private func microseconds(_ usage: ProcessUsage) -> Double {
        credited > 0 ? usage.cpu.inSeconds * 1_000_000 / Double(credited) : 0
    }

    /// One line for people, and some more for the memory.
    public var text: String {
        var words = [
            LabText.padded(store, 7), LabText.padded("\(latency.inMilliseconds) ms", -7),
            LabText.padded("\(LabText.fixed(perSecond, 0))/s", -10),
        ]
        for (name, usage) in processes {
            words.append("  \(name) \(LabText.fixed(microseconds(usage), 1)) µs")
            if name == "worker" { words.append("\(LabText.mebibytes(usage.residentBytesMax)) MiB") }
        }
        words.append("  others \(LabText.fixed(othersShare * 100, 0)) %")
        if !isComplete { words.append("  (cut off after \(credited))") }
        for (name, usage) in processes where usage.hasEnded { words.append("  (\(name) ENDED)") }
        return ([words.joined(separator: " ")] + (memory?.lines ?? [])).joined(separator: "\n")
    }

    /// Writes the report as one JSON object's members; CPU in microseconds per receipt.
    public func write(to json: inout JSONWriter) {
        json.member("store", store)
        json.member("latencyMs", latency.inMilliseconds)
        json.member("seconds", took.inSeconds)
        json.member("credited", credited)
        json.member("complete", isComplete)
        json.member("perSecond", perSecond)
        json.member(
            "cpuMicroseconds",
            object: { json in for (name, usage) in processes { json.member(dynamic: name, microseconds(usage)) } })
        json.member(
            "residentBytesMax",
            object: { json in for (name, usage) in processes { json.member(dynamic: name, usage.residentBytesMax) } })
        json.member("othersShare", othersShare)
        if let memory { json.member("bytesPerPurchase", object: { memory.write(to: &$0) }) }
    }
}
