public import ServiceRuntime

/// The `Retry-After` header in its three forms: seconds and HTTP-date (RFC 9110 §10.2.3), and Apple's own.
///
/// Apple documents for its server API: "The Retry-After value contains the time, in UNIX time, in milliseconds, when you
/// can next send a request" (https://developer.apple.com/documentation/appstoreserverapi/identifying-rate-limits).
public enum RetryAfter {
    /// Numbers from here on are a point in time (September 2001), below a number of seconds (at most 31,000 years).
    static let absoluteMillisecondsMin: Int64 = 1_000_000_000_000

    /// Reads a header's value.
    ///
    /// - Returns: How long to wait, never negative; nil when the value is in none of the forms.
    public static func parse(_ value: String, now: UnixMilliseconds) -> Duration? {
        let text = value.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        let digits = text.prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        if !digits.isEmpty, text.dropFirst(digits.count).allSatisfy({ $0 == 0x20 || $0 == 0x09 }) {
            guard let number = Int64(Substring(digits)) else { return nil }
            if number < absoluteMillisecondsMin { return .seconds(number) }
            return .milliseconds(max(0, number - now.value))
        }
        guard let time = HTTPDate.parse(value) else { return nil }
        return .milliseconds(max(0, time.value - now.value))
    }
}
