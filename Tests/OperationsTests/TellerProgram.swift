import Foundation
import Glibc
import Operations
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
    static func run(
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

/// A `teller` that runs; `timeout` ends it when a test forgets to.
final class RunningProgram {
    private let wrapper: pid_t
    private let directory: String
    private let name: String
    private var code: Int32?

    /// Starts it with `directory/input` as its input; what it says goes to files in `directory`.
    init(_ arguments: [String], environment: [String: String], directory: String, name: String = "run") throws {
        self.directory = directory
        self.name = name
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        let flags = O_WRONLY | O_CREAT | O_TRUNC
        let input = directory + "/input"
        posix_spawn_file_actions_addopen(&actions, 0, access(input, R_OK) == 0 ? input : "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "\(directory)/\(name).out", flags, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, "\(directory)/\(name).err", flags, 0o600)
        // The calling thread may have signals blocked, and a child inherits that.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        func strings(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] { texts.map { strdup($0) } + [nil] }
        let words = strings(["/usr/bin/timeout", "-k", "1", "240", TellerProgram.path] + arguments)
        let variables = strings(["PATH=/usr/bin:/bin"] + environment.map { "\($0.key)=\($0.value)" })
        defer { for pointer in words + variables { free(pointer) } }
        var child = pid_t()
        let status = posix_spawn(&child, "/usr/bin/timeout", &actions, &attributes, words, variables)
        guard status == 0 else { throw POSIXError(POSIXErrorCode(rawValue: status) ?? .EIO) }
        wrapper = child
    }

    var output: String { text("out") }
    var errors: String { text("err") }

    private func text(_ kind: String) -> String {
        String(decoding: FileManager.default.contents(atPath: "\(directory)/\(name).\(kind)") ?? Data(), as: UTF8.self)
    }

    /// Sends a signal to the program itself.
    func signal(_ number: Int32) {
        let children = FileManager.default.contents(atPath: "/proc/\(wrapper)/task/\(wrapper)/children")
        let pid = children.map { String(decoding: $0, as: UTF8.self) }?.split(separator: " ").first.flatMap {
            pid_t($0)
        }
        if let pid { kill(pid, number) }
    }

    private func hasEnded() -> Bool {
        if code != nil { return true }
        var status: Int32 = 0
        guard waitpid(wrapper, &status, WNOHANG) == wrapper else { return false }
        code = status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
        return true
    }

    /// Waits for its end; its exit code.
    func end(within limit: Duration, isolation: isolated (any Actor)? = #isolation) async throws -> Int32 {
        do {
            try await eventually(within: limit, "the program to end") { self.hasEnded() }
        } catch {
            signal(SIGKILL)
            throw error
        }
        return code ?? -1
    }

    deinit { if !hasEnded() { signal(SIGKILL) } }
}
