/// How a log line looks.
public enum LogFormat: Sendable {
    /// One JSON object per line: `{"time":…,"level":…,"logger":…,"event":…,<fields>}`.
    case json
    /// For a person at a terminal: `2026-11-30T06:05:45.123Z warning redis: lease failed attempts=3`.
    case text

    /// Longest string value in a line, in bytes; the rest is cut off.
    static let valueBytesMax = 2048
    /// Names of the line itself; a field of that name gets an underscore in front.
    private static let ownNames: Set<String> = ["time", "level", "logger", "event"]

    /// One line with its newline; whatever the fields hold, there is no other newline in it.
    func line(
        time: UnixMilliseconds, _ level: LogLevel, label: String, event: String, fields: [String: LogValue]
    ) -> [UInt8] {
        // Sorted, so that equal lines look equal: a dictionary's order changes from run to run.
        let fields = fields.sorted { $0.key < $1.key }
        var bytes =
            switch self {
            case .json: Self.json(time, level, label, event, fields)
            case .text: Self.text(time, level, label, event, fields)
            }
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }

    private static func json(
        _ time: UnixMilliseconds, _ level: LogLevel, _ label: String, _ event: String,
        _ fields: [(key: String, value: LogValue)]
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("time", time.rfc3339)
            writer.member("level", level.name)
            writer.member("logger", label)
            writer.member("event", event)
            for (key, value) in fields {
                let key = ownNames.contains(key) ? "_" + key : key
                switch value {
                case .string(let text): writer.member(dynamic: key, shortened(text))
                case .int(let number): writer.member(dynamic: key, number)
                case .double(let number): writer.member(dynamic: key, number)
                case .bool(let truth): writer.member(dynamic: key, truth)
                }
            }
        }
        return writer.bytes
    }

    private static func text(
        _ time: UnixMilliseconds, _ level: LogLevel, _ label: String, _ event: String,
        _ fields: [(key: String, value: LogValue)]
    ) -> [UInt8] {
        var line = "\(time.rfc3339) \(level.name) \(quoted(label)): \(event)"
        for (key, value) in fields {
            line += " \(quoted(key))="
            switch value {
            case .string(let text): line += quoted(shortened(text))
            case .int(let number): line += number.description
            case .double(let number): line += number.description
            case .bool(let truth): line += truth.description
            }
        }
        return Array(line.utf8)
    }

    private static func shortened(_ text: String) -> String {
        guard text.utf8.count > valueBytesMax else { return text }
        // A character cut in half is decoded as U+FFFD.
        return String(decoding: text.utf8.prefix(valueBytesMax), as: UTF8.self) + "…"
    }

    /// `text` as it is when it is one harmless word, else in quotes and with everything escaped that could move the
    /// cursor, start a line, or turn the direction of a terminal.
    private static func quoted(_ text: String) -> String {
        let isWord = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != 0x22 && $0 != 0x5c && $0 != 0x3d }
        if isWord, !text.isEmpty { return text }
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\":
                quoted += "\\"
                quoted.unicodeScalars.append(scalar)
            case "\n": quoted += "\\n"
            default:
                if isHarmless(scalar) {
                    quoted.unicodeScalars.append(scalar)
                } else {
                    quoted += "\\u{\(String(scalar.value, radix: 16))}"
                }
            }
        }
        return quoted + "\""
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate: false
        default: true
        }
    }
}
