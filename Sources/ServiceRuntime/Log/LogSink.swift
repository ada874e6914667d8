import Glibc
import Synchronization

/// Where log lines go: a bounded buffer in front of a file descriptor, normally stderr.
///
/// A log must never stop the loop: a full pipe or a stopped terminal makes `write` wait for ever. So a line is put
/// into the buffer, and the buffer is written when the descriptor takes it without waiting: once per turn of the loop,
/// or at once on another thread. When the buffer is full, lines are dropped and counted, and the count is logged as
/// soon as there is room. A crash loses the lines of the running turn, no more.
public final class LogSink: Sendable {
    /// Size of the buffer, unless chosen.
    public static let bufferBytesMax = 1 << 20
    /// How long the loop waits before it tries a descriptor again that took nothing.
    static let retryAfter: Duration = .milliseconds(20)

    private struct State {
        var buffer: [UInt8] = []
        /// How much of the start of `buffer` is written.
        var written = 0
        var isFlushPlanned = false
        /// Lines dropped since the last line that told so.
        var untoldDrops = 0
        var drops = 0
    }

    /// How lines look.
    public let format: LogFormat
    private let output: NonblockingOutput
    private let bufferBytesMax: Int
    private let clock: WallClock
    private let state = Mutex(State())

    /// Makes a sink that writes to `descriptor`, which it does not close.
    ///
    /// Without a `format`, a terminal gets text and everything else gets JSON.
    public init(
        descriptor: Int32 = 2, format: LogFormat? = nil, bufferBytesMax: Int = LogSink.bufferBytesMax,
        clock: WallClock = .system
    ) {
        self.format = format ?? (isatty(descriptor) == 1 ? .text : .json)
        self.output = NonblockingOutput(descriptor: descriptor)
        self.bufferBytesMax = bufferBytesMax
        self.clock = clock
    }

    /// Lines lost so far, because the buffer was full or the descriptor broken.
    public var droppedLines: Int { state.withLock { $0.drops } }

    /// Takes one line.
    func write(_ level: LogLevel, label: String, event: StaticString, fields: [String: LogValue]) {
        let line = format.line(time: clock.now, level, label: label, event: event.description, fields: fields)
        let isOnLoop = EventLoop.shared.isCurrent
        let mustPlan = state.withLock { state in
            append(line, to: &state)
            guard isOnLoop else {
                drain(&state)
                return false
            }
            defer { state.isFlushPlanned = true }
            return !state.isFlushPlanned
        }
        guard mustPlan else { return }
        LoopActor.assumeIsolated {
            EventLoop.shared.atTurnEnd { self.flushOnLoop() }
        }
    }

    /// Writes what is left, waiting up to `deadline`; true when everything is out.
    ///
    /// Blocks: call it as the last thing before the process ends.
    @discardableResult
    public func flush(within deadline: Duration = .seconds(1)) -> Bool {
        let start = MonotonicInstant.now
        while true {
            if state.withLock({ drain(&$0) }) { return true }
            let left = deadline - start.elapsed
            guard left > .zero else { return false }
            output.waitUntilWritable(milliseconds: Int32(clamping: max(1, left.inMilliseconds)))
        }
    }

    @LoopActor private func flushOnLoop() {
        let isEmpty = state.withLock { state in
            let isEmpty = drain(&state)
            if isEmpty { state.isFlushPlanned = false }
            return isEmpty
        }
        if !isEmpty { _ = EventLoop.shared.timer(after: Self.retryAfter) { self.flushOnLoop() } }
    }

    // MARK: Under the lock

    private func append(_ line: [UInt8], to state: inout State) {
        guard hasRoom(for: line, in: state) else {
            state.drops += 1
            state.untoldDrops += 1
            return
        }
        if state.untoldDrops > 0 {
            let report = format.line(
                time: clock.now, .warning, label: "log", event: "log lines dropped",
                fields: ["lines": .count(state.untoldDrops)])
            if hasRoom(for: report + line, in: state) {
                state.buffer += report
                state.untoldDrops = 0
            }
        }
        state.buffer += line
    }

    private func hasRoom(for line: [UInt8], in state: State) -> Bool {
        state.buffer.count - state.written + line.count <= bufferBytesMax
    }

    /// Writes what the descriptor takes without waiting; true when the buffer is empty.
    @discardableResult
    private func drain(_ state: inout State) -> Bool {
        while state.written < state.buffer.count {
            switch output.write(state.buffer[state.written...]) {
            case .wrote(let bytes):
                state.written += bytes
            case .wouldBlock:
                compact(&state)
                return false
            case .broken:
                let lines = state.buffer[state.written...].count { $0 == UInt8(ascii: "\n") }
                state.drops += lines
                state.untoldDrops += lines
                state.written = state.buffer.count
            }
        }
        // A burst must not leave a megabyte behind for good.
        state.buffer.removeAll(keepingCapacity: state.buffer.count <= bufferBytesMax / 16)
        state.written = 0
        return true
    }

    private func compact(_ state: inout State) {
        guard state.written > bufferBytesMax / 2 else { return }
        state.buffer.removeFirst(state.written)
        state.written = 0
    }
}

/// Writes to a descriptor that other processes may share without ever waiting for it.
///
/// `O_NONBLOCK` is no way: it belongs to the open file, and so to the shell and everyone else who shares our stderr.
struct NonblockingOutput: Sendable {
    enum Outcome { case wrote(Int), wouldBlock, broken }

    private enum Kind { case socket, file, pipeOrTerminal }
    private let descriptor: Int32
    private let kind: Kind

    init(descriptor: Int32) {
        self.descriptor = descriptor
        var information = stat()
        let isKnown = fstat(descriptor, &information) == 0
        // A closed descriptor is treated as a file: the first write says that it is broken, `poll` would not.
        switch isKnown ? information.st_mode & S_IFMT : S_IFREG {
        case S_IFSOCK: kind = .socket
        case S_IFREG: kind = .file
        default: kind = .pipeOrTerminal
        }
    }

    func write(_ bytes: ArraySlice<UInt8>) -> Outcome {
        bytes.withUnsafeBytes { bytes in
            let result: Int
            switch kind {
            case .socket:
                // MSG_DONTWAIT is per call; journald's stderr is a socket.
                result = send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
            case .file:
                result = Glibc.write(descriptor, bytes.baseAddress, bytes.count)
            case .pipeOrTerminal:
                // pipe(7): a writable pipe has room for PIPE_BUF bytes, so a write of that size does not wait.
                guard isWritable(waitMilliseconds: 0) else { return .wouldBlock }
                result = Glibc.write(descriptor, bytes.baseAddress, min(bytes.count, Int(PIPE_BUF)))
            }
            if result >= 0 { return .wrote(result) }
            return errno == EAGAIN || errno == EINTR ? .wouldBlock : .broken
        }
    }

    func waitUntilWritable(milliseconds: Int32) {
        _ = isWritable(waitMilliseconds: milliseconds)
    }

    private func isWritable(waitMilliseconds: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        // A hang-up counts as writable: the write then tells what is wrong.
        return poll(&entry, 1, waitMilliseconds) > 0
    }
}
