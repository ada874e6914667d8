import CCurl
import ServiceRuntime

/// The date format of HTTP headers (RFC 9110 §5.6.7), such as "Sun, 06 Nov 1994 08:49:37 GMT".
enum HTTPDate {
    /// - Returns: nil unless the text begins with a weekday; libcurl's parser alone would accept much more.
    static func parse(_ text: String) -> UnixMilliseconds? {
        let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        guard text.utf8.count <= 64, days.contains(where: { text.hasPrefix($0) }) else { return nil }
        let seconds = curl_getdate(text, nil)
        return seconds < 0 ? nil : UnixMilliseconds(seconds: Int64(seconds))
    }
}
