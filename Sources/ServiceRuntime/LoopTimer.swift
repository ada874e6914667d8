import CUV

/// A timer of the loop (`uv_timer`), with millisecond resolution; it lasts until ``cancel()`` or, when it does not
/// repeat, until it fired.
@LoopActor
public final class LoopTimer {
    private let handle = UnsafeMutablePointer<uv_timer_t>.allocate(capacity: 1)
    private let handler: @LoopActor () -> Void
    private let repeating: Duration?
    private var isClosed = false

    fileprivate init(_ delay: Duration, _ repeating: Duration?, _ handler: @escaping @LoopActor () -> Void) {
        self.handler = handler
        self.repeating = repeating
        uvCheck(uv_timer_init(EventLoop.shared.uv, handle), "uv_timer_init")
        // Owned by the handle until libuv has closed it (see `cancel`).
        handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
        arm(delay)
    }

    /// Lets the timer fire `delay` from now instead of when it would have; nothing happens after its end.
    public func reschedule(after delay: Duration) {
        guard !isClosed else { return }
        arm(delay)
    }

    /// Ends the timer; safe to call twice, and from the handler.
    public func cancel() {
        guard !isClosed else { return }
        isClosed = true
        uv_timer_stop(handle)
        closeHandle(handle) { data, handle in
            handle.deallocate()
            if let data { Unmanaged<LoopTimer>.fromOpaque(data).release() }
        }
    }

    private func arm(_ delay: Duration) {
        // The loop's clock stands still during a turn; without this a long turn would shorten the delay.
        uv_update_time(EventLoop.shared.uv)
        let period = repeating?.wholeMilliseconds ?? 0
        uv_timer_start(
            handle,
            { handle in
                guard let data = handle?.pointee.data else { return }
                let timer = Unmanaged<LoopTimer>.fromOpaque(data).takeUnretainedValue()
                LoopActor.assumeIsolated { timer.fire() }
            }, delay.wholeMilliseconds, period)
    }

    private func fire() {
        handler()
        // Unless the handler rescheduled it, a timer without a period is over.
        if repeating == nil, !isClosed,
            uv_is_active(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) == 0
        {
            cancel()
        }
    }
}

extension EventLoop {
    /// Calls `handler` on the loop after `delay`, and then every `repeating` if given.
    @LoopActor
    @discardableResult
    public func timer(
        after delay: Duration, repeating: Duration? = nil, _ handler: @escaping @LoopActor () -> Void
    ) -> LoopTimer {
        LoopTimer(delay, repeating, handler)
    }
}

extension Duration {
    /// Milliseconds, rounded up, never negative: a timer must not fire early.
    var wholeMilliseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let milliseconds = (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
        return UInt64(seconds) * 1000 + UInt64(milliseconds)
    }
}
