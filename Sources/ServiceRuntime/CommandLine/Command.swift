/// One command of a ``CommandLineTool``.
public struct Command: Sendable {
    /// An option, `--name VALUE` or `--name=VALUE`, or a flag, `--name`.
    public struct Option: Sendable {
        let name: String
        let value: String?
        let help: String
        let isRepeatable: Bool

        /// An option with a value.
        ///
        /// - Parameters:
        ///   - name: without the dashes.
        ///   - value: what the value is, such as `FILE`; nil makes a flag.
        ///   - help: what it does and what counts without it.
        ///   - isRepeatable: whether it may be given several times; see ``Arguments/strings(_:)``.
        public init(_ name: String, _ value: String? = nil, _ help: String, isRepeatable: Bool = false) {
            self.name = name
            self.value = value
            self.help = help
            self.isRepeatable = isRepeatable
        }

        var label: String { value.map { "--\(name) \($0)" } ?? "--\(name)" }
    }

    /// What users type, such as `dead list`.
    public let name: String
    let summary: String
    let details: String
    let operands: String
    let options: [Option]
    let run: @LoopActor @Sendable (Arguments) async throws -> Int32

    var words: [String] { name.split(separator: " ").map(String.init) }

    /// Describes a command.
    ///
    /// - Parameters:
    ///   - name: one or more words.
    ///   - summary: one line.
    ///   - details: paragraphs and examples for `--help`.
    ///   - operands: what follows the options, such as `ID…`; empty when nothing may.
    ///   - options: in the order in which help lists them.
    ///   - run: gives the exit code.
    public init(
        _ name: String, _ summary: String, details: String = "", operands: String = "", options: [Option] = [],
        run: @escaping @LoopActor @Sendable (Arguments) async throws -> Int32
    ) {
        self.name = name
        self.summary = summary
        self.details = details
        self.operands = operands
        self.options = options
        self.run = run
    }
}

/// The options and operands a command was called with.
public struct Arguments: Sendable {
    private var values: [String: [String]] = [:]
    private var flags: Set<String> = []
    /// What was given besides options.
    public private(set) var operands: [String] = []

    init(_ words: some Sequence<String>, of command: Command) throws(UsageError) {
        var words = Array(words)[...]
        while let word = words.popFirst() {
            guard word.hasPrefix("--"), word != "--" else {
                guard !command.operands.isEmpty else { throw UsageError("does not take \"\(word)\"") }
                if word == "--" { operands += words; break }
                operands.append(word)
                continue
            }
            let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts.first ?? "")
            guard let option = command.options.first(where: { $0.name == name }) else {
                throw UsageError("there is no option --\(name)")
            }
            guard option.value != nil else {
                guard parts.count == 1 else { throw UsageError("--\(name) takes no value") }
                flags.insert(name)
                continue
            }
            guard let value = parts.count == 2 ? String(parts[1]) : words.popFirst() else {
                throw UsageError("\(option.label): the value is missing")
            }
            guard values[name] == nil || option.isRepeatable else { throw UsageError("--\(name) was given twice") }
            values[name, default: []].append(value)
        }
    }

    /// Whether a flag was given.
    public func has(_ flag: String) -> Bool { flags.contains(flag) }

    /// An option's value; nil when it was not given.
    public func string(_ name: String) -> String? { values[name]?.first }

    /// Every value of a repeatable option, in order; empty when it was not given.
    public func strings(_ name: String) -> [String] { values[name] ?? [] }

    /// An option's value as a whole number.
    public func integer(_ name: String, in range: ClosedRange<Int>, default standard: Int) throws(UsageError) -> Int {
        guard let text = string(name) else { return standard }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError("--\(name): must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// An option's value as a number.
    public func number(
        _ name: String, in range: ClosedRange<Double>, default standard: Double
    ) throws(UsageError) -> Double {
        guard let text = string(name) else { return standard }
        guard let number = Double(text), range.contains(number) else {
            throw UsageError("--\(name): must be a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
