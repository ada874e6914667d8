import ServiceRuntime
import Testing

@Suite struct UnixMillisecondsTests {
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.001Z", 1), ("1969-12-31T23:59:59.999Z", -1),
            ("2026-11-30T06:05:45.123Z", 1_796_018_745_123), ("2026-11-30T06:05:45.123456789Z", 1_796_018_745_123),
            ("2026-11-30T06:05:45.1Z", 1_796_018_745_100), ("2026-11-30T06:05:45.12Z", 1_796_018_745_120),
            ("2026-11-30T06:05:45.999999999Z", 1_796_018_745_999), ("2026-11-30t06:05:45z", 1_796_018_745_000),
            ("2026-11-30T07:35:45+01:30", 1_796_018_745_000), ("2026-11-29T22:05:45-08:00", 1_796_018_745_000),
            ("2026-11-30T06:05:45-00:00", 1_796_018_745_000), ("2024-02-29T12:00:00Z", 1_709_208_000_000),
            ("2000-02-29T00:00:00Z", 951_782_400_000), ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000), ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] as [(String, Int64)])
    func readsRFC3339(_ text: String, _ value: Int64) {
        #expect(UnixMilliseconds(rfc3339: text)?.value == value)
    }

    @Test(arguments: [
        "", "2026-11-30", "2026-11-30T06:05:45", "2026-11-30 06:05:45Z", "2026-11-30T06:05Z", "2026-11-30T06:05:45.Z",
        "2026-11-30T06:05:45.1234567890Z", "2026-11-30T06:05:45,5Z", "2026-11-30T24:00:00Z", "2026-11-30T06:60:00Z",
        "2026-11-30T06:05:61Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-11-31T00:00:00Z",
        "2026-11-00T00:00:00Z", "2025-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-11-30T06:05:45+0100",
        "2026-11-30T06:05:45+01", "2026-11-30T06:05:45+24:00", "2026-11-30T06:05:45+01:60", "2026-11-30T06:05:45ZZ",
        "2026-11-30T06:05:45Z ", " 2026-11-30T06:05:45Z", "26-11-30T06:05:45Z", "+2026-11-30T06:05:45Z",
        "2026-1-30T06:05:45Z", "2026-11-30T06:05:-5Z", "٢٠٢٦-11-30T06:05:45Z", "1796018745123",
    ])
    func refusesWhatIsNotRFC3339(_ text: String) {
        #expect(UnixMilliseconds(rfc3339: text) == nil)
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (1_796_018_745_123, "2026-11-30T06:05:45.123Z"), (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"), (.min, "0000-01-01T00:00:00.000Z"),
            (.max, "9999-12-31T23:59:59.999Z"),
        ] as [(Int64, String)])
    func writesRFC3339(_ value: Int64, _ text: String) {
        #expect(UnixMilliseconds(value).rfc3339 == text)
    }

    @Test func everyDayOfFourCenturiesReadsBackEqual() {
        var wrong = 0
        var previous = ""
        for day in Int64(-80_000)...66_097 {
            let time = UnixMilliseconds(day * 86_400_000 + (day & 0xffff) * 1_001)
            let text = time.rfc3339
            if UnixMilliseconds(rfc3339: text) != time || text <= previous { wrong += 1 }
            previous = text
        }
        #expect(wrong == 0)
    }

    @Test func countsWithDurations() {
        let time = UnixMilliseconds(1_000)
        #expect(time + .seconds(2) == UnixMilliseconds(3_000))
        #expect(time - .milliseconds(1_500) == UnixMilliseconds(-500))
        #expect(UnixMilliseconds(3_000) - time == .seconds(2))
        #expect(UnixMilliseconds(seconds: 5).value == 5_000)
        #expect(UnixMilliseconds(-1).seconds == -1)
        #expect(UnixMilliseconds(1_999).seconds == 1)
        #expect(Duration.milliseconds(1_500).inSeconds == 1.5)
    }

    @Test func theSystemClockIsAfterThisWasWritten() {
        #expect(WallClock.system.now > UnixMilliseconds(1_700_000_000_000))
        #expect(WallClock { UnixMilliseconds(5) }.now.value == 5)
    }
}
