import CUV

/// What a file descriptor is ready for, or is asked to be watched for.
public struct IOEvents: OptionSet, Sendable {
    /// `UV_READABLE`, `UV_WRITABLE` and `UV_DISCONNECT` as libuv has them.
    public let rawValue: Int32

    /// Makes a set from libuv's bits.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// Bytes, a connection or the end of the stream can be read; also set on an error of the descriptor.
    public static let readable = IOEvents(rawValue: Int32(UV_READABLE.rawValue))
    /// Bytes can be written without waiting; also set on an error of the descriptor.
    public static let writable = IOEvents(rawValue: Int32(UV_WRITABLE.rawValue))
    /// The other side closed its end (`EPOLLRDHUP`).
    public static let disconnected = IOEvents(rawValue: Int32(UV_DISCONNECT.rawValue))
}

/// A failed call of libuv: its name and libuv's text for the error.
public struct LoopError: Error, Sendable, CustomStringConvertible {
    /// libuv's negative error number, such as `UV_EBADF`.
    public let code: Int32
    /// What was attempted.
    public let call: String
    /// For example "uv_poll_init: bad file descriptor".
    public var description: String { "\(call): \(String(cString: uv_strerror(code)))" }
}

/// The watch over one file descriptor that a C library owns (`uv_poll`); it lasts until ``stop()``.
///
/// ``stop()`` must be called before the descriptor is closed: its number may be in use again in the same turn.
@LoopActor
public final class IOWatch {
    private let handle = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    private let handler: @LoopActor (IOEvents) -> Void
    private var events: IOEvents
    private var isStopped = false

    fileprivate init(_ fd: Int32, _ events: IOEvents, _ handler: @escaping @LoopActor (IOEvents) -> Void)
        throws(LoopError)
    {
        self.handler = handler
        self.events = events
        let failed = uv_poll_init(EventLoop.shared.uv, handle, fd)
        guard failed == 0 else {
            handle.deallocate()
            throw LoopError(code: failed, call: "uv_poll_init")
        }
        // Owned by the handle until libuv has closed it (see `stop`).
        handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
        arm()
    }

    /// Changes what is watched; the empty set pauses.
    ///
    /// Costs two system calls (libuv removes and adds the descriptor), so do not toggle per message.
    public func update(_ events: IOEvents) {
        guard !isStopped, events != self.events else { return }
        self.events = events
        arm()
    }

    /// Ends the watch: the handler is not called again.
    ///
    /// Safe to call twice, and from the handler.
    public func stop() {
        guard !isStopped else { return }
        isStopped = true
        uv_poll_stop(handle)
        closeHandle(handle) { data, handle in
            handle.deallocate()
            if let data { Unmanaged<IOWatch>.fromOpaque(data).release() }
        }
    }

    private func arm() {
        guard !events.isEmpty else {
            uv_poll_stop(handle)
            return
        }
        uv_poll_start(handle, events.rawValue) { handle, status, events in
            guard let data = handle?.pointee.data else { return }
            let watch = Unmanaged<IOWatch>.fromOpaque(data).takeUnretainedValue()
            // On an error libuv stops the handle; the owner learns of it as readiness and meets the error itself.
            let seen: IOEvents = status < 0 ? [.readable, .writable] : IOEvents(rawValue: events)
            LoopActor.assumeIsolated { watch.handler(seen) }
        }
    }
}

extension EventLoop {
    /// Watches `fd` and calls `handler` on the loop whenever it is ready for one of `events`.
    @LoopActor
    public func watch(
        fd: Int32, _ events: IOEvents, _ handler: @escaping @LoopActor (IOEvents) -> Void
    ) throws(LoopError) -> IOWatch {
        try IOWatch(fd, events, handler)
    }
}

/// Closes a libuv handle and hands its data and memory to `release` once libuv no longer uses them.
@LoopActor
func closeHandle<Handle>(
    _ handle: UnsafeMutablePointer<Handle>,
    _ release: @escaping @convention(c) (UnsafeMutableRawPointer?, UnsafeMutableRawPointer) -> Void
) {
    let base = UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)
    let closing = Closing(data: base.pointee.data, release: release)
    base.pointee.data = Unmanaged.passRetained(closing).toOpaque()
    uv_close(base) { handle in
        guard let handle, let data = handle.pointee.data else { return }
        let closing = Unmanaged<Closing>.fromOpaque(data).takeRetainedValue()
        closing.release(closing.data, UnsafeMutableRawPointer(handle))
    }
}

/// What must be released when libuv is done with a handle.
private final class Closing {
    let data: UnsafeMutableRawPointer?
    let release: @convention(c) (UnsafeMutableRawPointer?, UnsafeMutableRawPointer) -> Void

    init(
        data: UnsafeMutableRawPointer?,
        release: @escaping @convention(c) (UnsafeMutableRawPointer?, UnsafeMutableRawPointer) -> Void
    ) {
        self.data = data
        self.release = release
    }
}
