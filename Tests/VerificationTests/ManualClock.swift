import ServiceRuntime
import Synchronization

/// A clock that stands where a test puts it.
final class ManualClock: Sendable {
    private let milliseconds: Mutex<Int64>

    init(_ start: UnixMilliseconds) { milliseconds = Mutex(start.value) }

    func set(_ time: UnixMilliseconds) { milliseconds.withLock { $0 = time.value } }

    func advance(_ duration: Duration) { milliseconds.withLock { $0 += duration.inMilliseconds } }

    var clock: WallClock { WallClock { UnixMilliseconds(self.milliseconds.withLock { $0 }) } }
}
