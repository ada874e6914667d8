import Glibc
import Redis
import ServiceRuntime
import TestSupport
import Testing

/// Not a test of correctness: `TELLER_BENCHMARK=1 swift test -c release --filter RedisBenchmarks` prints what a command
/// costs this process with 1,000 commands in flight.
@Suite(.enabled(if: getenv("TELLER_BENCHMARK") != nil), .serialized) struct RedisBenchmarks {
    private static let tasks = 1000
    private static let rounds = 1000

    @Test @LoopActor func costOfACommand() async throws {
        try await RedisServer.running(["appendonly no"]) { server in
            try await withConnection(server.url) { redis in
                try await measure("INCR") { _ = try await redis.send(["INCR", "n"]) }
                let kilobyte = RedisArgument.bytes([UInt8](repeating: 7, count: 1024))
                try await measure("SET 1 KiB") { _ = try await redis.send(["SET", "k", kilobyte]) }
                try await measure("GET 1 KiB") { _ = try await redis.send(["GET", "k"]) }
                let script = RedisScript(name: "echo", text: "local r = {} for i = 1, #ARGV do r[i] = 1 end return r")
                let batched = BatchedScript(script, on: redis, keysPerCall: 1, argumentsPerCall: 1)
                try await measure("batched script call") { _ = try await batched.call(keys: ["k"], arguments: ["a"]) }
            }
        }
    }

    @LoopActor private func measure(
        _ what: String, _ command: @escaping @LoopActor @Sendable () async throws -> Void
    ) async throws {
        let (start, cpuBefore) = (MonotonicInstant.now, Self.threadCPU())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.tasks {
                group.addTask { @LoopActor @Sendable in
                    for _ in 0..<Self.rounds { try await command() }
                }
            }
            try await group.waitForAll()
        }
        let seconds = start.elapsedSeconds
        let count = Double(Self.tasks * Self.rounds)
        let cpu = (Self.threadCPU() - cpuBefore) / count * 1e6
        print("\(what): \(Int(count / seconds)) commands/s, \((cpu * 100).rounded() / 100) µs CPU per command")
    }

    /// Seconds of CPU of the calling thread, which is the loop's.
    @LoopActor private static func threadCPU() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}
