import Lab
import Testing

@Suite struct LatencyHistogramTests {
    @Test func percentilesAreWithinASixtyFourthAboveTheTruth() {
        var histogram = LatencyHistogram()
        for milliseconds in 1...1000 { histogram.record(.milliseconds(milliseconds)) }
        for percent in [1.0, 25, 50, 90, 99, 99.9] {
            let truth = Duration.milliseconds(percent * 10)
            let told = histogram.percentile(percent)
            #expect(told >= truth && told <= truth * (1 + 1.0 / 64), "p\(percent): \(told)")
        }
        #expect(histogram.percentile(100) == .milliseconds(1000))
        #expect(histogram.count == 1000)
        #expect(histogram.mean == .microseconds(500_500))
    }

    @Test(arguments: [0, 1, 127, 128, 129, 4_095, 4_096, 1_000_003, 59_999_999, 3_600_000_000, 1 << 36])
    func aSingleLatencyIsToldExactly(_ microseconds: Int) {
        var histogram = LatencyHistogram()
        histogram.record(.microseconds(microseconds))
        #expect(histogram.percentile(50) == .microseconds(microseconds))
        #expect(histogram.max == .microseconds(microseconds))
    }

    @Test func everyLatencyFallsIntoABucketThatHoldsIt() {
        var microseconds = 1
        while microseconds < 1 << 33 {
            var histogram = LatencyHistogram()
            histogram.record(.microseconds(microseconds))
            histogram.record(.seconds(100_000))
            let told = histogram.percentile(50)
            #expect(told >= .microseconds(microseconds))
            #expect(told <= .microseconds(microseconds + microseconds / 64))
            microseconds += 1 + microseconds / 5
        }
    }

    @Test func theHighestPercentileIsTheOneOutlier() {
        var histogram = LatencyHistogram()
        for _ in 0..<999 { histogram.record(.microseconds(100)) }
        histogram.record(.seconds(7))
        #expect(histogram.percentile(99.9) == .microseconds(100))
        #expect(histogram.percentile(99.91) == .seconds(7))
    }

    @Test func mergedHistogramsCountLikeOne() {
        var left = LatencyHistogram()
        var right = LatencyHistogram()
        var both = LatencyHistogram()
        for value in 0..<500 {
            left.record(.microseconds(value * 17))
            right.record(.microseconds(value * 1009))
            both.record(.microseconds(value * 17))
            both.record(.microseconds(value * 1009))
        }
        left.merge(right)
        #expect(left == both)
    }

    @Test func nothingRecordedIsZero() {
        #expect(LatencyHistogram().percentile(99) == .zero)
        #expect(LatencyHistogram().mean == .zero)
    }

    @Test func aClockThatWentBackCountsAsZero() {
        var histogram = LatencyHistogram()
        histogram.record(.milliseconds(-3))
        #expect(histogram.percentile(100) == .zero)
    }
}
