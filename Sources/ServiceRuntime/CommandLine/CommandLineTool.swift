import Glibc

/// A program with commands, such as `teller dead replay --all`: finds the command, reads its options, teaches with
/// `--help`, and runs it on the event loop.
///
/// Exit codes: what the command returns; 1 when it throws; 2 when it was called wrongly, with the usage on standard error.
public struct CommandLineTool: Sendable {
    private let name: String
    private let summary: String
    private let commands: [Command]

    /// Describes a program.
    ///
    /// - Parameters:
    ///   - name: what users type.
    ///   - summary: one sentence.
    ///   - commands: in the order in which help lists them.
    public init(_ name: String, _ summary: String, commands: [Command]) {
        self.name = name
        self.summary = summary
        self.commands = commands
    }

    /// Runs the command that `arguments` name (without the program's own name) and ends the process.
    public func main(_ arguments: [String] = Array(CommandLine.arguments.dropFirst())) -> Never {
        switch choose(arguments) {
        case .say(let text):
            print(text)
            exit(0)
        case .refuse(let text):
            complain(text)
            exit(2)
        case .run(let command, let arguments):
            EventLoop.main { await self.run(command, arguments) }
        }
    }

    private enum Choice {
        case say(String)
        case refuse(String)
        case run(Command, Arguments)
    }

    private func choose(_ words: [String]) -> Choice {
        guard let first = words.first, !["--help", "-h", "help"].contains(first) else {
            return words.isEmpty ? .refuse(overview) : .say(overview)
        }
        // What every program is asked.
        if first == "--version", commands.contains(where: { $0.name == "version" }) {
            return choose(["version"] + words.dropFirst())
        }
        let matches = commands.filter { words.starts(with: $0.words) }
        guard let command = matches.max(by: { $0.words.count < $1.words.count }) else {
            let family = commands.filter { $0.words.first == first }
            guard !family.isEmpty else { return .refuse("\(name): no command \"\(first)\"\n\n\(overview)") }
            guard let second = words.dropFirst().first else { return .refuse(overview(of: first, family)) }
            if ["--help", "-h"].contains(second) { return .say(family.map { help($0) }.joined(separator: "\n\n")) }
            return .refuse("\(name): no command \"\(first) \(second)\"\n\n\(overview(of: first, family))")
        }
        let rest = words.dropFirst(command.words.count)
        if rest.contains("--help") || rest.contains("-h") { return .say(help(command)) }
        do throws(UsageError) {
            return .run(command, try Arguments(rest, of: command))
        } catch {
            return .refuse(
                "\(name) \(command.name): \(error.reason)\n\(usage(command))\nSee: \(name) \(command.name) --help")
        }
    }

    @LoopActor private func run(_ command: Command, _ arguments: Arguments) async -> Int32 {
        do {
            return try await command.run(arguments)
        } catch let error as UsageError {
            complain("\(name) \(command.name): \(error.reason)\nSee: \(name) \(command.name) --help")
            return 2
        } catch {
            complain("\(name) \(command.name): \(error)")
            return 1
        }
    }

    // MARK: - Help

    private var overview: String {
        """
        \(name): \(summary)

        Usage: \(name) COMMAND [OPTIONS]

        \(list(commands))

        \(name) COMMAND --help explains a command.
        """
    }

    /// Of the commands that begin with one word.
    private func overview(of word: String, _ family: [Command]) -> String {
        """
        Usage: \(name) \(word) COMMAND [OPTIONS]

        \(list(family))

        \(name) \(word) COMMAND --help explains a command.
        """
    }

    private func list(_ commands: [Command]) -> String {
        let width = commands.map(\.name.count).max() ?? 0
        return commands.map { "  \($0.name.padded(to: width))  \($0.summary)" }.joined(separator: "\n")
    }

    private func usage(_ command: Command) -> String {
        let operands = command.operands.isEmpty ? "" : " " + command.operands
        return "Usage: \(name) \(command.name)\(command.options.isEmpty ? "" : " [OPTIONS]")\(operands)"
    }

    private func help(_ command: Command) -> String {
        var text = "\(command.summary)\n\n\(usage(command))\n"
        if !command.details.isEmpty { text += "\n\(command.details)\n" }
        let width = command.options.map(\.label.count).max() ?? 0
        if !command.options.isEmpty { text += "\nOptions:\n" }
        for option in command.options { text += "  \(option.label.padded(to: width))  \(option.help)\n" }
        return String(text.dropLast())
    }
}

/// A command was called with the wrong words; the text says which and what would be right.
public struct UsageError: Error, Sendable, CustomStringConvertible {
    /// For example "--port: must be a whole number from 0 to 65535".
    public let reason: String

    /// Says what is wrong.
    public init(_ reason: String) { self.reason = reason }

    /// The reason.
    public var description: String { reason }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

/// One line on standard error, where a terminal or a supervisor's log takes it.
private func complain(_ text: String) {
    let line = Array((text + "\n").utf8)
    line.withUnsafeBytes { _ = write(2, $0.baseAddress, $0.count) }
}
