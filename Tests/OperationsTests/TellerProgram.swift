import Foundation
import Glibc
import Lab
import ServiceRuntime
import TestSupport

/// The built `teller`, run as users run it.
enum TellerProgram {
    /// What a finished run said.
    struct Run {
        let code: Int32
        let output: String
        let errors: String
    }

    /// Beside the test bundle that runs, wherever it was built.
    static var path: String {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let beside =
            own.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") + "/teller"
        return FileManager.default.isExecutableFile(atPath: beside) ? beside : Repository.root + "/.build/debug/teller"
    }

    /// Runs it to its end.
    @LoopActor static func run(
        _ arguments: [String], environment: [String: String] = [:], input: String = ""
    ) async throws -> Run {
        try await withDirectory { directory in
            try input.write(toFile: directory + "/input", atomically: false, encoding: .utf8)
            let program = try RunningProgram(arguments, environment: environment, directory: directory)
            let code = try await program.end(within: .seconds(90))
            return Run(code: code, output: program.output, errors: program.errors)
        }
    }

    /// A temporary directory, removed afterwards.
    static func withDirectory<Answer>(
        isolation: isolated (any Actor)? = #isolation, _ body: (String) async throws -> Answer
    ) async throws -> Answer {
        var template = Array("/tmp/teller-test-program-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw CocoaError(.fileWriteUnknown) }
        let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        return try await body(directory)
    }
}

/// A `teller` that runs.
@LoopActor
final class RunningProgram {
    private let child: ChildProcess
    private let directory: String
    private let name: String

    /// Starts it with `directory/input` as its input; what it says goes to files in `directory`.
    init(_ arguments: [String], environment: [String: String], directory: String, name: String = "run") throws {
        self.directory = directory
        self.name = name
        let input = directory + "/input"
        child = try ChildProcess(
            [TellerProgram.path] + arguments, environment: environment,
            input: access(input, R_OK) == 0 ? input : "/dev/null", output: "\(directory)/\(name).out",
            errors: "\(directory)/\(name).err")
    }

    var output: String { text("out") }
    var errors: String { text("err") }

    private func text(_ kind: String) -> String {
        String(decoding: FileManager.default.contents(atPath: "\(directory)/\(name).\(kind)") ?? Data(), as: UTF8.self)
    }

    func signal(_ number: Int32) { child.send(signal: number) }

    /// Waits for its end; its exit code.
    func end(within limit: Duration) async throws -> Int32 {
        do {
            try await eventually(within: limit, "the program to end") { !self.child.isRunning }
        } catch {
            signal(SIGKILL)
            throw error
        }
        return child.exitCode ?? -1
    }

    isolated deinit { child.send(signal: SIGKILL) }
}
