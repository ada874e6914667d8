public import ServiceRuntime
import Synchronization

/// A clock that stands where a test puts it.
public final class ManualClock: Sendable {
    private let time: Mutex<UnixMilliseconds>

    /// Stands at `start`.
    public init(_ start: UnixMilliseconds) { time = Mutex(start) }

    /// What it shows.
    public var now: UnixMilliseconds { time.withLock { $0 } }

    /// Puts it somewhere else.
    public func set(_ time: UnixMilliseconds) { self.time.withLock { $0 = time } }

    /// Puts it forward.
    public func advance(_ duration: Duration) { time.withLock { $0 = $0 + duration } }

    /// The clock for what is tested.
    public var wallClock: WallClock { WallClock { self.now } }
}
