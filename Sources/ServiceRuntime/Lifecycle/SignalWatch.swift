import CUV

/// Calls a handler on the loop for Unix signals (`uv_signal`), for example SIGHUP to read the configuration again.
///
/// Watching starts in the initialiser, so make it before announcing that the process is ready: a signal that comes
/// earlier has its default effect. After ``stop()`` a signal has its default effect again.
@LoopActor
public final class SignalWatch {
    private let handler: @LoopActor (Int32) -> Void
    private var handles: [UnsafeMutablePointer<uv_signal_t>] = []

    /// Watches `signals` until ``stop()``; the handler is told which one came.
    public init(signals: [Int32], _ handler: @escaping @LoopActor (Int32) -> Void) {
        self.handler = handler
        for signal in signals { watch(signal) }
    }

    private func watch(_ signal: Int32) {
        let handle = UnsafeMutablePointer<uv_signal_t>.allocate(capacity: 1)
        uvCheck(uv_signal_init(EventLoop.shared.uv, handle), "uv_signal_init")
        // Each handle owns one reference until libuv has closed it (see `stop`).
        handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
        let failed = uv_signal_start(
            handle,
            { handle, signal in
                guard let data = handle?.pointee.data else { return }
                let watch = Unmanaged<SignalWatch>.fromOpaque(data).takeUnretainedValue()
                LoopActor.assumeIsolated { watch.handler(signal) }
            }, signal)
        // Fails for SIGKILL and SIGSTOP, which nobody can watch: a mistake in the program.
        uvCheck(failed, "uv_signal_start")
        handles.append(handle)
    }

    /// Ends the watch.
    ///
    /// Safe to call twice, and from the handler.
    public func stop() {
        for handle in handles {
            uv_signal_stop(handle)
            closeHandle(handle) { data, handle in
                handle.deallocate()
                if let data { Unmanaged<SignalWatch>.fromOpaque(data).release() }
            }
        }
        handles = []
    }
}
