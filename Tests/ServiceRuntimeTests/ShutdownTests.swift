import Glibc
import ServiceRuntime
import TestSupport
import Testing

/// Signals belong to the process, so these tests do not run beside each other.
@Suite(.serialized) @LoopActor struct ShutdownTests {
    @Test func everybodyWhoWaitsIsToldOnce() async {
        let shutdown = Shutdown()
        let waiters = (0..<10).map { _ in
            Task { @LoopActor @Sendable in
                await shutdown.wait()
                return shutdown.isRequested
            }
        }
        let requester = Task { @LoopActor @Sendable in
            shutdown.request()
            shutdown.request()
        }
        for waiter in waiters { #expect(await waiter.value) }
        await requester.value
        await shutdown.wait()
    }

    @Test func aCancelledWaiterIsReleasedWithoutAShutdown() async {
        let shutdown = Shutdown()
        let waiter = Task { @LoopActor @Sendable in
            await shutdown.wait()
            return shutdown.isRequested
        }
        waiter.cancel()
        #expect(await waiter.value == false)
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func aSignalRequestsIt(_ signal: Int32) async {
        let shutdown = Shutdown.onSignals()
        kill(getpid(), signal)
        await shutdown.wait()
        #expect(shutdown.isRequested)
        shutdown.stopWatchingSignals()
    }

    @Test func aSecondTerminateIsHarmlessAndASecondInterruptEndsTheProcess() async {
        await #expect(processExitsWith: .signal(SIGINT)) {
            try await Task { @LoopActor @Sendable in
                let shutdown = Shutdown.onSignals()
                kill(getpid(), SIGTERM)
                await shutdown.wait()
                kill(getpid(), SIGTERM)
                try await pause(for: .milliseconds(20))
                kill(getpid(), SIGINT)
                try await pause(for: .milliseconds(20))
                kill(getpid(), SIGINT)
                try await pause(for: .seconds(10))
            }.value
        }
    }

    @Test func aWatchHearsItsSignalsUntilItStops() async throws {
        let heard = Metrics().counter("heard_total", "Signals.")
        let other = Metrics().counter("other_total", "Signals.")
        let watch = SignalWatch(signals: [SIGUSR1, SIGUSR2]) { signal in
            heard.increment(by: signal == SIGUSR1 ? 1 : 100)
        }
        let second = SignalWatch(signals: [SIGUSR1]) { _ in other.increment() }
        kill(getpid(), SIGUSR1)
        try await eventually("SIGUSR1") { heard.value == 1 && other.value == 1 }
        kill(getpid(), SIGUSR2)
        try await eventually("SIGUSR2") { heard.value == 101 }
        watch.stop()
        watch.stop()
        kill(getpid(), SIGUSR1)
        try await eventually("the other watch") { other.value == 2 }
        #expect(heard.value == 101)
        second.stop()
    }
}
