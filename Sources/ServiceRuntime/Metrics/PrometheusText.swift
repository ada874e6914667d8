/// The text format of Prometheus, version 0.0.4.
///
/// https://prometheus.io/docs/instrumenting/exposition_formats/
enum PrometheusText {
    static func appendHeader(_ name: String, _ help: String, type: String, to text: inout String) {
        text += "# HELP \(name) \(escaped(help, quotes: false))\n# TYPE \(name) \(type)\n"
    }

    static func append(_ name: String, _ labels: String, _ value: String, to text: inout String) {
        text += labels.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels)} \(value)\n"
    }

    /// `a="1",b="2"`, sorted by name.
    static func labels(_ labels: [String: String]) -> String {
        labels.sorted { $0.key < $1.key }
            .map { "\($0.key)=\"\(escaped($0.value, quotes: true))\"" }
            .joined(separator: ",")
    }

    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return Int(value).description }
        return value.description
    }

    /// "label_value can be any sequence of UTF-8 characters, but the backslash, double-quote and line feed characters
    /// have to be escaped"; in help texts the quote must not be.
    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    static func isMetricName(_ name: String) -> Bool { isName(name, colonAllowed: true) }

    static func isLabelName(_ name: String) -> Bool {
        isName(name, colonAllowed: false) && !name.hasPrefix("__")
    }

    private static func isName(_ name: String, colonAllowed: Bool) -> Bool {
        guard let first = name.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return name.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x5f: true
            case 0x3a: colonAllowed
            default: false
            }
        }
    }
}
