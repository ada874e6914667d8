import Glibc

/// A point in time on the wall clock: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
///
/// The one type for times that are stored, compared with a store's times, or shown. The stores send milliseconds
/// (Apple) or RFC 3339 (Google); Redis holds milliseconds; our own API speaks RFC 3339. For elapsed time use
/// ``MonotonicInstant``: the wall clock may jump.
public struct UnixMilliseconds: Hashable, Comparable, Sendable {
    /// Milliseconds since the epoch; negative before 1970.
    public let value: Int64

    /// Makes a time from milliseconds since the epoch.
    public init(_ value: Int64) { self.value = value }

    /// Makes a time from whole seconds since the epoch, as JWT claims hold them.
    public init(seconds: Int64) { value = seconds.multipliedReportingOverflow(by: 1000).partialValue }

    /// The time now, read from the system's clock.
    public static var now: UnixMilliseconds {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UnixMilliseconds(Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    /// Whole seconds since the epoch, rounded down.
    public var seconds: Int64 { value >= 0 ? value / 1000 : (value - 999) / 1000 }

    /// Whether `left` is earlier.
    public static func < (left: UnixMilliseconds, right: UnixMilliseconds) -> Bool { left.value < right.value }

    /// The time `duration` later; fractions of a millisecond are dropped.
    public static func + (time: UnixMilliseconds, duration: Duration) -> UnixMilliseconds {
        UnixMilliseconds(time.value + duration.inMilliseconds)
    }

    /// The time `duration` earlier; fractions of a millisecond are dropped.
    public static func - (time: UnixMilliseconds, duration: Duration) -> UnixMilliseconds {
        UnixMilliseconds(time.value - duration.inMilliseconds)
    }

    /// The time from `right` to `left`, negative when `left` is earlier.
    public static func - (left: UnixMilliseconds, right: UnixMilliseconds) -> Duration {
        .milliseconds(left.value - right.value)
    }
}

extension Duration {
    /// The duration in whole milliseconds, rounded towards zero.
    public var inMilliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }

    /// The duration in seconds, for metrics.
    public var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) * 1e-18
    }
}

/// Where code gets the time of day from: the system, or what a test says.
public struct WallClock: Sendable {
    private let read: @Sendable () -> UnixMilliseconds

    /// Makes a clock that asks `read`.
    public init(_ read: @escaping @Sendable () -> UnixMilliseconds) { self.read = read }

    /// The system's clock.
    public static let system = WallClock { .now }

    /// The time now.
    public var now: UnixMilliseconds { read() }
}

/// A point on a clock that never jumps, for measuring how long something took.
public struct MonotonicInstant: Comparable, Sendable {
    private let nanoseconds: Int64

    /// The instant now.
    public static var now: MonotonicInstant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicInstant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    /// The time since this instant.
    public var elapsed: Duration { MonotonicInstant.now - self }

    /// Seconds since this instant, as a histogram wants them.
    public var elapsedSeconds: Double { Double(MonotonicInstant.now.nanoseconds - nanoseconds) * 1e-9 }

    /// Whether `left` is earlier.
    public static func < (left: MonotonicInstant, right: MonotonicInstant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// The time from `right` to `left`.
    public static func - (left: MonotonicInstant, right: MonotonicInstant) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }

    /// The instant `duration` later.
    public static func + (instant: MonotonicInstant, duration: Duration) -> MonotonicInstant {
        let parts = duration.components
        return MonotonicInstant(
            nanoseconds: instant.nanoseconds + parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000)
    }
}
