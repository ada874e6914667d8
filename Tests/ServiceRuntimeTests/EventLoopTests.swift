import Glibc
import ServiceRuntime
import Testing

@Suite struct EventLoopTests {
    @Test func everyTaskOfTheActorRunsOnOneThread() async {
        let threads = await withTaskGroup(of: UInt.self) { group in
            for _ in 0..<200 {
                group.addTask { @LoopActor @Sendable in
                    await Task.yield()
                    EventLoop.shared.preconditionOnLoop()
                    return UInt(pthread_self())
                }
            }
            return await group.reduce(into: Set<UInt>()) { $0.insert($1) }
        }
        #expect(threads.count == 1)
    }

    @Test func childTasksInheritTheLoopAsTheirExecutor() async {
        let onLoop = await Task(executorPreference: EventLoop.shared) {
            await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<50 { group.addTask { EventLoop.shared.isCurrent } }
                return await group.reduce(true) { $0 && $1 }
            }
        }.value
        #expect(onLoop)
    }

    @Test func turnEndRunsOnceAfterAllReadyJobs() async {
        let order = await Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            var order: [String] = []
            let done = Completion<Void>()
            EventLoop.shared.atTurnEnd {
                order.append("end of turn")
                done.complete(())
            }
            await Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in }.value
            order.append("job")
            await done.wait()
            return order
        }.value
        #expect(order == ["job", "end of turn"])
    }

    @Test @LoopActor func turnEndMayAddMoreWorkOfTheSameTurn() async {
        let done = Completion<Int>()
        EventLoop.shared.atTurnEnd { EventLoop.shared.atTurnEnd { done.complete(2) } }
        #expect(await done.wait() == 2)
    }

    @Test @LoopActor func yieldingForEverDoesNotStarveTimers() async {
        let spinning = Task { @LoopActor @Sendable in
            while !Task.isCancelled { await Task.yield() }
        }
        let fired = Completion<Bool>()
        EventLoop.shared.timer(after: .milliseconds(5)) { fired.complete(true) }
        #expect(await fired.wait())
        spinning.cancel()
    }

    @Test @LoopActor func watchReportsReadinessUntilStopped() async throws {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        defer { ends.forEach { close($0) } }
        let readable = Completion<IOEvents>()
        var calls = 0
        let watch = try EventLoop.shared.watch(fd: ends[0], .readable) { events in
            calls += 1
            readable.complete(events)
        }
        write(ends[1], "x", 1)
        #expect(await readable.wait().contains(.readable))
        watch.stop()
        watch.stop()
        let callsAtStop = calls
        try await pause(for: .milliseconds(5))
        #expect(calls == callsAtStop)
    }

    @Test @LoopActor func watchOfNoDescriptorIsAnError() {
        #expect(throws: LoopError.self) { try EventLoop.shared.watch(fd: -1, .readable) { _ in } }
    }

    @Test @LoopActor func repeatingTimerFiresUntilCancelled() async throws {
        let third = Completion<Void>()
        var count = 0
        var timer: LoopTimer?
        timer = EventLoop.shared.timer(after: .zero, repeating: .milliseconds(1)) {
            count += 1
            guard count == 3 else { return }
            timer?.cancel()
            third.complete(())
        }
        await third.wait()
        try await pause(for: .milliseconds(5))
        #expect(count == 3)
    }

    @Test @LoopActor func pauseEndsAtOnceWhenCancelled() async {
        let task = Task { @LoopActor @Sendable in try await pause(for: .seconds(3600)) }
        await Task.yield()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test @LoopActor func deadlineGivesNilAndCancelsTheOperation() async throws {
        let never: Void? = try await withDeadline(.milliseconds(5)) { try await pause(for: .seconds(3600)) }
        #expect(never == nil)
        #expect(try await withDeadline(.seconds(60)) { 7 } == 7)
    }

    @Test @LoopActor func completionKeepsTheFirstValueOnly() async {
        let completion = Completion<Int>()
        #expect(completion.complete(1))
        #expect(!completion.complete(2))
        #expect(await completion.wait() == 1)
        #expect(!completion.complete(3))
    }

    @Test @LoopActor func resolvesNamesAndNumbers() async throws {
        let numeric = try await EventLoop.shared.resolve(host: "127.0.0.1", port: 6379)
        #expect(numeric.contains(SocketAddress(numericHost: "127.0.0.1", port: 6379, isIPv6: false)))
        #expect(try await !EventLoop.shared.resolve(host: "localhost", port: 1).isEmpty)
        await #expect(throws: LoopError.self) {
            try await EventLoop.shared.resolve(host: "no-such-host.invalid", port: 1)
        }
    }
}
