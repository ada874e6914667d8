import Glibc

/// The one wish to stop: asked for by SIGTERM or SIGINT, or by the program itself, and awaited by whoever must stop.
///
/// A second SIGINT (an impatient Ctrl-C) has its default effect and ends the process; nothing is lost then that a crash
/// would not lose. A second SIGTERM changes nothing: supervisors repeat it.
@LoopActor
public final class Shutdown {
    /// True once somebody asked for it; never false again.
    public private(set) var isRequested = false
    private var waiting: [ObjectIdentifier: Completion<Void>] = [:]
    private var watches: [SignalWatch] = []

    /// Makes one that only ``request()`` triggers.
    public init() {}

    /// Makes one that SIGTERM and SIGINT trigger from now on.
    public static func onSignals() -> Shutdown {
        let shutdown = Shutdown()
        let interrupt = SignalWatch(signals: [SIGINT]) { [weak shutdown] _ in shutdown?.interrupt() }
        let terminate = SignalWatch(signals: [SIGTERM]) { [weak shutdown] _ in shutdown?.request() }
        shutdown.watches = [interrupt, terminate]
        return shutdown
    }

    private func interrupt() {
        watches.first?.stop()
        request()
    }

    /// Asks everybody who waits to stop; safe to call again.
    public func request() {
        guard !isRequested else { return }
        isRequested = true
        for completion in waiting.values { completion.complete(()) }
        waiting = [:]
    }

    /// Returns when a stop is asked for, at once if it was; also when the waiting task is cancelled.
    public func wait() async {
        guard !isRequested else { return }
        let requested = Completion<Void>()
        waiting[ObjectIdentifier(requested)] = requested
        await withTaskCancellationHandler {
            await requested.wait()
        } onCancel: {
            EventLoop.shared.perform { requested.complete(()) }
        }
        waiting[ObjectIdentifier(requested)] = nil
    }

    /// Lets signals have their default effect again.
    public func stopWatchingSignals() {
        for watch in watches { watch.stop() }
        watches = []
    }
}
