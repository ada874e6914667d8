/// The `Prefer` request header (RFC 7240), as far as Teller honours it.
public enum Prefer {
    /// The seconds of the first `wait` preference in a header's value.
    ///
    /// "If a preference is given more than once, all but the first are ignored" (§2); what is malformed is as if it were
    /// not there, since preferences never make a request fail.
    public static func wait(in value: String) -> Int? {
        for preference in split(value, at: ",") {
            // Parameters after ";" belong to the preference; `wait` has none.
            guard let token = split(preference, at: ";").first else { continue }
            let parts = token.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard trimmed(parts[0]).lowercased() == "wait" else { continue }
            guard parts.count == 2 else { return nil }
            var number = trimmed(parts[1])
            if number.count >= 2, number.first == "\"", number.last == "\"" { number = number.dropFirst().dropLast() }
            guard !number.isEmpty, number.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") })
            else { return nil }
            return Int(number)
        }
        return nil
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }

    /// Splits outside of quoted strings, in which separators are data.
    private static func split(_ text: some StringProtocol, at separator: Character) -> [Substring] {
        var parts: [Substring] = []
        let text = Substring(text)
        var start = text.startIndex
        var isQuoted = false
        var isEscaped = false
        for index in text.indices {
            let character = text[index]
            if isEscaped {
                isEscaped = false
            } else if isQuoted, character == "\\" {
                isEscaped = true
            } else if character == "\"" {
                isQuoted.toggle()
            } else if character == separator, !isQuoted {
                parts.append(text[start..<index])
                start = text.index(after: index)
            }
        }
        parts.append(text[start...])
        return parts
    }
}
