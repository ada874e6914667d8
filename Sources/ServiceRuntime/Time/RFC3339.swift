/// Times as text, RFC 3339: written as `2026-11-30T06:05:45.123Z`, read with 0 to 9 fraction digits and any offset.
///
/// Own code because Foundation's formatters cost microseconds and 10 MB of resident memory, and read dates that the
/// RFC does not allow.
extension UnixMilliseconds {
    private static let millisecondsPerDay: Int64 = 86_400_000
    /// 0000-01-01T00:00:00.000Z, the first time that RFC 3339 can write.
    static let rfc3339Min = UnixMilliseconds(-62_167_219_200_000)
    /// 9999-12-31T23:59:59.999Z, the last.
    static let rfc3339Max = UnixMilliseconds(253_402_300_799_999)

    /// The time in UTC with milliseconds, always 24 characters; clamped to the years 0000 to 9999.
    public var rfc3339: String {
        String(unsafeUninitializedCapacity: 24) { buffer in
            write(rfc3339: buffer)
            return 24
        }
    }

    /// Reads `2026-11-30T06:05:45Z`, with 0 to 9 fraction digits (cut to milliseconds) and `Z` or `+hh:mm`.
    ///
    /// Gives nil for anything else. A leap second (`:60`) counts as the second after it.
    public init?(rfc3339 text: String) {
        var text = text
        guard let value = text.withUTF8({ utf8 in Self.parse(utf8) }) else { return nil }
        self.init(value)
    }

    // MARK: Writing

    private func write(rfc3339 buffer: UnsafeMutableBufferPointer<UInt8>) {
        let clamped = min(max(self, Self.rfc3339Min), Self.rfc3339Max).value
        let days = (clamped >= 0 ? clamped : clamped - (Self.millisecondsPerDay - 1)) / Self.millisecondsPerDay
        let millisecond = Int(clamped - days * Self.millisecondsPerDay)
        let (year, month, day) = Self.date(daysSinceEpoch: Int(days))

        func put(_ value: Int, _ digits: Int, at offset: Int) {
            var rest = value
            for position in stride(from: offset + digits - 1, through: offset, by: -1) {
                buffer[position] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            }
        }
        put(year, 4, at: 0)
        buffer[4] = UInt8(ascii: "-")
        put(month, 2, at: 5)
        buffer[7] = UInt8(ascii: "-")
        put(day, 2, at: 8)
        buffer[10] = UInt8(ascii: "T")
        put(millisecond / 3_600_000, 2, at: 11)
        buffer[13] = UInt8(ascii: ":")
        put(millisecond / 60_000 % 60, 2, at: 14)
        buffer[16] = UInt8(ascii: ":")
        put(millisecond / 1000 % 60, 2, at: 17)
        buffer[19] = UInt8(ascii: ".")
        put(millisecond % 1000, 3, at: 20)
        buffer[23] = UInt8(ascii: "Z")
    }

    // MARK: Reading

    private static func parse(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
        var scanner = DigitScanner(text: text)
        guard let year = scanner.digits(4), scanner.skip("-"), let month = scanner.digits(2), scanner.skip("-"),
            let day = scanner.digits(2), scanner.skip("T") || scanner.skip("t"),
            let hour = scanner.digits(2), scanner.skip(":"), let minute = scanner.digits(2), scanner.skip(":"),
            let second = scanner.digits(2),
            (1...12).contains(month), day >= 1, day <= days(inMonth: month, of: year),
            hour < 24, minute < 60, second <= 60,
            let fraction = scanner.millisecondFraction(), let offsetMinutes = scanner.offsetMinutes(), scanner.isAtEnd
        else { return nil }
        let days = Int64(daysSinceEpoch(year: year, month: month, day: day))
        let minutes = Int64(hour * 60 + minute - offsetMinutes)
        return days * millisecondsPerDay + minutes * 60_000 + Int64(second * 1000 + fraction)
    }

    // MARK: The Gregorian calendar

    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years start in March, so that the leap day is the
    // last one; 400 years are one era of 146,097 days; 719,468 days lie between 0000-03-01 and 1970-01-01.

    /// Days from 1970-01-01 to a date of the Gregorian calendar; for HTTP dates too.
    static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month <= 2 ? year - 1 : year
        let era = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
        let yearOfEra = marchYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func date(daysSinceEpoch: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = daysSinceEpoch + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func days(inMonth month: Int, of year: Int) -> Int {
        switch month {
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// Reads fixed-width fields from the left.
private struct DigitScanner {
    static let fractionDigitsMax = 9

    let text: UnsafeBufferPointer<UInt8>
    var position = 0

    var isAtEnd: Bool { position == text.count }

    mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard position < text.count, text[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    mutating func digits(_ count: Int) -> Int? {
        guard position + count <= text.count else { return nil }
        var value = 0
        for byte in text[position..<position + count] {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        position += count
        return value
    }

    /// Milliseconds of an optional `.d{1,9}`, cut, not rounded: a time must not move into the next second.
    mutating func millisecondFraction() -> Int? {
        guard skip(".") else { return 0 }
        var milliseconds = 0
        var count = 0
        while let digit = digits(1) {
            if count < 3 { milliseconds = milliseconds * 10 + digit }
            count += 1
        }
        guard (1...Self.fractionDigitsMax).contains(count) else { return nil }
        for _ in min(count, 3)..<3 { milliseconds *= 10 }
        return milliseconds
    }

    /// Minutes east of UTC.
    mutating func offsetMinutes() -> Int? {
        if skip("Z") || skip("z") { return 0 }
        let isWest = skip("-")
        guard isWest || skip("+"), let hours = digits(2), skip(":"), let minutes = digits(2), hours < 24, minutes < 60
        else { return nil }
        return isWest ? -(hours * 60 + minutes) : hours * 60 + minutes
    }
}
