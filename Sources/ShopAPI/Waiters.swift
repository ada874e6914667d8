import ServiceRuntime

/// The requests that wait for a submission to be settled, woken by the settlement feed.
///
/// A waiter registers *before* its receipt is queued, so no settlement can fall between the two. What wakes it is only
/// a hint: it reads the status again, and does so as well after the feed was interrupted and at its deadline.
@LoopActor
final class Waiters {
    private var waiting: [String: [Waiter]] = [:]
    private(set) var count = 0

    /// One request's wait for one submission.
    @LoopActor
    final class Waiter {
        let submission: String
        fileprivate var pending = Completion<Void>()
        fileprivate var isSignalled = false

        fileprivate init(_ submission: String) { self.submission = submission }

        fileprivate func signal() {
            isSignalled = true
            pending.complete(())
        }
    }

    func register(_ submission: String) -> Waiter {
        let waiter = Waiter(submission)
        waiting[submission, default: []].append(waiter)
        count += 1
        return waiter
    }

    func remove(_ waiter: Waiter) {
        guard var others = waiting[waiter.submission] else { return }
        others.removeAll { $0 === waiter }
        count -= 1
        waiting[waiter.submission] = others.isEmpty ? nil : others
    }

    /// Waits for a signal, at most until `deadline`; true when one came.
    ///
    /// Ends early, without a signal, when the task is cancelled: its client has gone.
    func wait(_ waiter: Waiter, until deadline: ContinuousClock.Instant) async -> Bool {
        if !waiter.isSignalled {
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { return false }
            let pending = waiter.pending
            let timer = EventLoop.shared.timer(after: left) { pending.complete(()) }
            await withTaskCancellationHandler {
                await pending.wait()
            } onCancel: {
                EventLoop.shared.perform { pending.complete(()) }
            }
            timer.cancel()
        }
        let signalled = waiter.isSignalled
        waiter.isSignalled = false
        waiter.pending = Completion()
        return signalled
    }

    func settled(_ submissions: [String]) {
        guard !waiting.isEmpty else { return }
        for submission in submissions { waiting[submission]?.forEach { $0.signal() } }
    }

    /// The feed was interrupted, or the API is about to stop: whoever waits must look for itself.
    func wakeAll() {
        for waiters in waiting.values { waiters.forEach { $0.signal() } }
    }
}
