/// Latencies in buckets that are fixed beforehand, as HdrHistogram has them: each power of two of microseconds is cut into
/// 64 equal parts, so every latency is known to 1/64 (1.6 %) whatever its size, in 16 kB, at the cost of an increment.
public struct LatencyHistogram: Sendable, Equatable {
    /// Values below this have a bucket of their own; each octave above has half as many buckets.
    private static let exactBelow: UInt64 = 128
    private static let bucketsPerOctave = 64
    /// Some 19 hours; what is longer counts as this in the percentiles.
    private static let microsecondsMax: UInt64 = 1 << 36

    private var counts = [Int](repeating: 0, count: Self.index(of: Self.microsecondsMax) + 1)
    /// How many were recorded.
    public private(set) var count = 0
    /// The longest, exactly.
    public private(set) var max: Duration = .zero
    private var totalMicroseconds: Double = 0

    /// Nothing recorded.
    public init() {}

    /// Counts one latency; negative ones count as zero.
    public mutating func record(_ latency: Duration) {
        let parts = latency.components
        let microseconds = UInt64(
            Swift.max(0, parts.seconds * 1_000_000 + parts.attoseconds / 1_000_000_000_000))
        counts[Self.index(of: Swift.min(microseconds, Self.microsecondsMax))] += 1
        count += 1
        totalMicroseconds += Double(microseconds)
        max = Swift.max(max, latency)
    }

    /// Counts everything that another one counted.
    public mutating func merge(_ other: LatencyHistogram) {
        for (index, count) in other.counts.enumerated() where count > 0 { counts[index] += count }
        count += other.count
        totalMicroseconds += other.totalMicroseconds
        max = Swift.max(max, other.max)
    }

    /// The latency that `percent` (0...100) of the recorded ones do not exceed: the upper end of its bucket, and never
    /// more than the longest; zero when nothing was recorded.
    public func percentile(_ percent: Double) -> Duration {
        guard count > 0 else { return .zero }
        // 99.9 has no exact binary form; a rank must not be one too high because of that.
        let rank = Swift.max(1, Int((percent * Double(count) / 100 - 1e-6).rounded(.up)))
        var seen = 0
        for (index, inBucket) in counts.enumerated() where inBucket > 0 {
            seen += inBucket
            if seen >= rank { return Swift.min(.microseconds(Self.upperEnd(of: index)), max) }
        }
        return max
    }

    /// The average; zero when nothing was recorded.
    public var mean: Duration { count == 0 ? .zero : .microseconds(totalMicroseconds / Double(count)) }

    private static func index(of microseconds: UInt64) -> Int {
        guard microseconds >= exactBelow else { return Int(microseconds) }
        let shift = UInt64.bitWidth - microseconds.leadingZeroBitCount - 7
        return Int(exactBelow) + (shift - 1) * bucketsPerOctave + Int(microseconds >> shift) - bucketsPerOctave
    }

    private static func upperEnd(of index: Int) -> UInt64 {
        guard index >= exactBelow else { return UInt64(index) }
        let (octave, part) = (index - Int(exactBelow)).quotientAndRemainder(dividingBy: bucketsPerOctave)
        let shift = UInt64(octave + 1)
        return (UInt64(part + bucketsPerOctave + 1) << shift) - 1
    }
}
