import Redis
import ServiceRuntime
import TestSupport
import Testing

@testable import Jobs

/// A small, seedable generator (SplitMix64): a failing run is repeated by its seed.
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}

/// Goal: whatever workers do and wherever they die, every job is in exactly one place or was settled.
///
/// Method: 10,000 jobs; in each step a random worker leases, settles, retries, buries, releases, dies with what it
/// holds, loses a reply, or sweeps; at the end everything that is not settled must be found, once.
@Suite struct ConservationTests {
    @Test(arguments: [1, 2] as [UInt64]) @LoopActor func everyJobIsSomewhereExactlyOnce(_ seed: UInt64) async throws {
        try await Bench.run { bench in
            var random = SplitMix(seed: seed)
            let front = bench.front()
            let total = 10_000
            _ = try await together(0..<total) { try await front.submit("0-\($0)", "{\"n\":\($0)}") }
            var settled: Set<String> = []
            var workers: [(queue: JobQueue, leases: [Lease])] = []
            var born = 0
            for _ in 0..<400 {
                if workers.count < 4 {
                    born += 1
                    workers.append((try await bench.worker("w\(born)"), []))
                }
                let index = Int.random(in: 0..<workers.count, using: &random)
                let queue = workers[index].queue
                switch Int.random(in: 0..<20, using: &random) {
                case 0:
                    // Dies; what it holds stays in its running hash.
                    try await bench.die(queue)
                    workers.remove(at: index)
                case 1...3:
                    try await bench.pulse(queue)
                    _ = try await queue.sweep()
                case 4:
                    // As if the replies had been lost: it does not know of its leases any more.
                    queue.held = [:]
                    workers[index].leases = try await queue.adopt()
                case 5...12:
                    workers[index].leases += try await queue.lease(
                        queue: "apple", max: Int.random(in: 1...200, using: &random))
                default:
                    try await finishSome(&workers[index].leases, queue, &settled, &random)
                }
            }
            try await check(bench, total: total, settled: settled)
        }
    }

    @LoopActor
    private func finishSome(
        _ leases: inout [Lease], _ queue: JobQueue, _ settled: inout Set<String>, _ random: inout SplitMix
    ) async throws {
        leases.shuffle(using: &random)
        let chosen = leases.suffix(60).map { (lease: $0, fate: Int.random(in: 0..<10, using: &random)) }
        leases.removeLast(chosen.count)
        let credited = try await together(chosen) { lease, fate -> String? in
            switch fate {
            case 0..<6:
                return try await queue.settle(lease, status: statusJSON("credited")) ? lease.submission : nil
            case 6, 7:
                _ = try await queue.retry(
                    lease, after: .milliseconds(fate == 6 ? 0 : 40), status: statusJSON("pending"))
            case 8: _ = try await queue.release(lease)
            default: _ = try await queue.bury(lease, reasons: ["random"], status: statusJSON("dead"))
            }
            return nil
        }
        for case let name? in credited {
            let isNew = settled.insert(name).inserted
            #expect(isNew, "settled twice as holder: \(name)")
        }
    }

    @LoopActor
    private func check(_ bench: Bench, total: Int, settled: Set<String>) async throws {
        let names = bench.keys.queue("apple")
        var entries: [RedisValue] = []
        for list in [names.pending, names.arrived, names.suspects] {
            entries += try await bench.raw("LRANGE", list, "0", "-1").elements ?? []
        }
        entries += try await bench.raw("ZRANGE", names.retry, "0", "-1").elements ?? []
        for worker in try await bench.front().workers() {
            entries += try await bench.raw("HVALS", bench.keys.prefix + "running:" + worker.worker).elements ?? []
        }
        var found = entries.compactMap { $0.bytes.flatMap { JobEntry($0)?.submission } }
        #expect(found.count == entries.count)
        for offset in stride(from: 0, to: try await bench.dead(), by: 100) {
            found += try await bench.front().deadLetters(offset: offset).compactMap(\.submission)
        }
        #expect(Set(found).count == found.count, "a job is in two places")
        #expect(settled.isDisjoint(with: found), "a settled job is still there")
        #expect(found.count + settled.count == total)
        #expect(settled.count > 300)
    }
}
