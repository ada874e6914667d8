/// How urgent a log line is.
public enum LogLevel: Int, Comparable, Sendable, CaseIterable {
    case debug, info, notice, warning, error

    /// The level called `name` (`debug`, `info`, …); nil when there is none.
    public init?(named name: String) {
        guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = level
    }

    /// The level's name, as it stands in the log.
    public var name: String { String(describing: self) }

    /// Whether `left` is less urgent.
    public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// A value in a log line.
///
/// It can be written as a literal but not as an interpolation: `"\(error)"` is how receipts get into logs.
public enum LogValue: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral
{
    case string(String)
    case int(Int64)
    case double(Double)
    case bool(Bool)

    /// A string value.
    public init(stringLiteral value: StaticString) { self = .string(value.description) }
    /// An integer value.
    public init(integerLiteral value: Int64) { self = .int(value) }
    /// A number.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }

    /// A count.
    public static func count(_ value: Int) -> LogValue { .int(Int64(value)) }
    /// A duration in whole milliseconds; the field's name should end in `Ms`.
    public static func milliseconds(_ value: Duration) -> LogValue { .int(value.inMilliseconds) }
}

/// Writes structured log lines: a fixed event text, and the data in fields.
///
/// Passed in initialisers, never global, so that a module logs under its own label and a test can be silent. The event
/// is a `StaticString`, so a line can always be found in the source, and nothing from outside ends in it. Usable from
/// any thread. Receipts, tokens, keys and whole errors must not be given as values.
public struct Logger: Sendable {
    /// Which part of the program logs, for example `redis`.
    public let label: String
    /// Lines below this level are not written.
    public let level: LogLevel
    private let sink: LogSink?
    private let bound: [String: LogValue]

    private init(label: String, sink: LogSink?, level: LogLevel, bound: [String: LogValue]) {
        self.label = label
        self.sink = sink
        self.level = level
        self.bound = bound
    }

    /// Makes a logger that writes lines of `level` and above to `sink`.
    public init(label: String, sink: LogSink, level: LogLevel = .info) {
        self.init(label: label, sink: sink, level: level, bound: [:])
    }

    /// Writes nothing.
    public static let disabled = Logger(label: "disabled", sink: nil, level: .error, bound: [:])

    /// The same logger with `fields` in every line; a field given with a line wins over a bound one.
    public func with(_ fields: [String: LogValue]) -> Logger {
        Logger(label: label, sink: sink, level: level, bound: bound.merging(fields) { $1 })
    }

    /// The same sink, level and bound fields under another label.
    public func labelled(_ label: String) -> Logger {
        Logger(label: label, sink: sink, level: level, bound: bound)
    }

    /// Whether a line of `level` would be written.
    public func isEnabled(_ level: LogLevel) -> Bool { sink != nil && level >= self.level }

    /// For the developer: every step.
    public func debug(_ event: StaticString, _ fields: @autoclosure () -> [String: LogValue] = [:]) {
        log(.debug, event, fields)
    }

    /// For the curious: what happens normally.
    public func info(_ event: StaticString, _ fields: @autoclosure () -> [String: LogValue] = [:]) {
        log(.info, event, fields)
    }

    /// For the operator: normal but rare, such as a start or a new configuration.
    public func notice(_ event: StaticString, _ fields: @autoclosure () -> [String: LogValue] = [:]) {
        log(.notice, event, fields)
    }

    /// For the operator: something failed and is being dealt with.
    public func warning(_ event: StaticString, _ fields: @autoclosure () -> [String: LogValue] = [:]) {
        log(.warning, event, fields)
    }

    /// For the operator: somebody has to do something.
    public func error(_ event: StaticString, _ fields: @autoclosure () -> [String: LogValue] = [:]) {
        log(.error, event, fields)
    }

    private func log(_ level: LogLevel, _ event: StaticString, _ fields: () -> [String: LogValue]) {
        guard level >= self.level, let sink else { return }
        let own = fields()
        let all = bound.isEmpty ? own : bound.merging(own) { $1 }
        sink.write(level, label: label, event: event, fields: all)
    }
}
