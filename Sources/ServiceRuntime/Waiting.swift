/// A value that arrives once, from a callback on the loop, and is awaited by at most one task.
///
/// The bridge between C callbacks and `await`: completing before anyone waits is kept, completing twice is refused, so
/// neither "callback first" nor "cancelled and answered" can resume a task twice or never.
@LoopActor
public final class Completion<Value: Sendable> {
    private enum State {
        case empty
        case waiting(UnsafeContinuation<Value, Never>)
        case completed(Value)
        case taken
    }

    private var state = State.empty

    /// Makes one that nothing has completed yet.
    public init() {}

    /// Delivers the value; false when one was delivered before.
    @discardableResult
    public func complete(_ value: Value) -> Bool {
        switch state {
        case .empty:
            state = .completed(value)
            return true
        case .waiting(let continuation):
            state = .taken
            continuation.resume(returning: value)
            return true
        case .completed, .taken:
            return false
        }
    }

    /// Waits for the value; to be called once.
    public func wait() async -> Value {
        if case .completed(let value) = state {
            state = .taken
            return value
        }
        return await withUnsafeContinuation { continuation in
            // Looked at again: a task may come here by way of the loop's queue, and others run in between.
            switch state {
            case .empty:
                state = .waiting(continuation)
            case .completed(let value):
                state = .taken
                continuation.resume(returning: value)
            case .waiting, .taken:
                preconditionFailure("two tasks wait for one completion")
            }
        }
    }
}

/// Waits `duration` on the loop's clock.
///
/// - Throws: `CancellationError` at once when the task is cancelled.
@LoopActor
public func pause(for duration: Duration) async throws(CancellationError) {
    let elapsed = Completion<Bool>()
    let timer = EventLoop.shared.timer(after: duration) { elapsed.complete(true) }
    let inTime = await withTaskCancellationHandler {
        await elapsed.wait()
    } onCancel: {
        EventLoop.shared.perform { elapsed.complete(false) }
    }
    guard inTime else {
        timer.cancel()
        throw CancellationError()
    }
}

/// Runs `operation` for at most `duration`; nil when the time was over first.
///
/// The operation is then cancelled and *waited for*: it must end promptly on cancellation.
@LoopActor
public func withDeadline<Value: Sendable>(
    _ duration: Duration, _ operation: @escaping @LoopActor @Sendable () async throws -> Value
) async throws -> Value? {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { @LoopActor @Sendable in try await operation() }
        group.addTask { @LoopActor @Sendable in
            try? await pause(for: duration)
            return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
    }
}
