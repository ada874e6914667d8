/// The media type of a `Content-Type` header (RFC 9110 §8.3).
public enum ContentType {
    /// Whether a header's value names `type` (such as "application/json"), whatever its parameters.
    ///
    /// A `charset` other than UTF-8 does not match: bodies are read as UTF-8 only.
    public static func matches(_ value: String?, _ type: String) -> Bool {
        guard let value else { return false }
        let parts = value.split(separator: ";", omittingEmptySubsequences: false)
        guard let essence = parts.first, trimmed(essence).lowercased() == type else { return false }
        for parameter in parts.dropFirst() {
            let pair = parameter.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, trimmed(pair[0]).lowercased() == "charset" else { continue }
            let charset = trimmed(pair[1]).lowercased().filter { $0 != "\"" }
            guard charset == "utf-8" || charset == "utf8" || charset == "us-ascii" else { return false }
        }
        return true
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
