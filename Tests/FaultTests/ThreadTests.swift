import Foundation
import Lab
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

extension RealProcessTests {
    /// Goal: none of our code runs off the loop's thread.
    ///
    /// Method: libuv's pool, which resolves names, is held to one
    /// thread; then a process may ever have two: that one, which does next to nothing, and the loop's. A task on Swift's
    /// global pool would need a third, and each return from there is counted by the loop.
    @Test @LoopActor func noneOfOurCodeRunsOffTheLoopsThread() async throws {
        var configuration = FaultHarness.Configuration()
        configuration.workers = 1
        configuration.environment = ["UV_THREADPOOL_SIZE": "1"]
        try await FaultHarness.running(configuration) { harness in
            var seen: [String: [Int32: ThreadLook]] = [:]
            @LoopActor func look() {
                for process in harness.processes {
                    guard let pid = process.pid else { continue }
                    for thread in ThreadLook.threads(of: pid) { seen[process.name, default: [:]][thread.id] = thread }
                }
            }
            for round in 0..<60 {
                // Errors and retries take other paths than the good case.
                let knobs = FaultKnobs(faults: round % 6 == 0 ? [StoreFault(.status(503), count: 1)] : [])
                harness.emulator.setFaults(knobs, for: "*")
                try await Customer(harness, at: round % 2 == 0 ? .apple : .google).insist()
                look()
            }
            for process in harness.processes {
                let strangers = try await harness.metric("teller_loop_jobs_from_other_threads_total", of: process)
                #expect(strangers == 0, "\(process.name)")
            }
            harness.redis.freeze()
            look()
            harness.redis.thaw()
            for process in harness.processes { process.terminate() }
            while harness.processes.contains(where: \.isRunning) {
                look()
                try await pause(for: .milliseconds(1))
            }
            for process in harness.processes {
                let threads = try #require(seen[process.name])
                let main = try #require(threads.values.map(\.cpuTicks).max())
                #expect(threads.count <= 2, "\(process.name): \(threads.values)")
                #expect(main > 0)
                let others = threads.values.map(\.cpuTicks).reduce(0, +) - main
                #expect(others <= 1, "\(process.name): \(threads.values)")
            }
        }
    }
}

/// One thread, from `/proc/<pid>/task/<tid>/stat`.
struct ThreadLook: CustomStringConvertible {
    let id: Int32
    let name: String
    let cpuTicks: Int

    var description: String { "\(id) \(name) \(cpuTicks) ticks" }

    static func threads(of pid: Int32) -> [ThreadLook] {
        let directory = "/proc/\(pid)/task"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.compactMap { name in
            guard let id = Int32(name), let bytes = FileManager.default.contents(atPath: "\(directory)/\(id)/stat")
            else {
                return nil
            }
            let stat = String(decoding: bytes, as: UTF8.self)
            guard let open = stat.firstIndex(of: "("), let close = stat.lastIndex(of: ")") else { return nil }
            let fields = stat[close...].dropFirst().split(separator: " ")
            guard fields.count > 12, let user = Int(fields[11]), let system = Int(fields[12]) else { return nil }
            return ThreadLook(id: id, name: String(stat[stat.index(after: open)..<close]), cpuTicks: user + system)
        }
    }
}
