import Foundation
package import Glibc
package import ServiceRuntime

/// A process that the lab started, and that does not outlive it.
///
/// It is only ever stopped by its own id. The kernel kills it when the lab's loop thread ends in whatever way
/// (`setpriv --pdeathsig`, which is PR_SET_PDEATHSIG before the exec), so a killed test leaves nothing behind.
@LoopActor
package final class ChildProcess {
    /// Its id; stays its own until the end was seen, because a zombie keeps its number.
    package let pid: pid_t
    private var hasEnded = false

    /// Starts `words`, looked up in PATH, with standard output and error appended to the file `log`.
    package init(_ words: [String], environment: [String: String] = [:], log: String) throws(LabError) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        Self.keepDescriptorsFromChildren()
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let setpriv = ["setpriv", "--pdeathsig", "KILL", "--"] + words
        var arguments: [UnsafeMutablePointer<CChar>?] = setpriv.map { strdup($0) } + [nil]
        var variables: [UnsafeMutablePointer<CChar>?] =
            Self.inherited(besides: environment).map { strdup($0) } + environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for pointer in arguments + variables { free(pointer) } }
        var child = pid_t()
        let status = posix_spawnp(&child, "setpriv", &actions, &attributes, &arguments, &variables)
        guard status == 0 else { throw .stage("\(words[0]): \(String(cString: strerror(status)))") }
        pid = child
    }

    /// Whether it has not ended yet.
    package var isRunning: Bool {
        var status: Int32 = 0
        if !hasEnded, waitpid(pid, &status, WNOHANG) == pid { hasEnded = true }
        return !hasEnded
    }

    /// Sends a signal, unless its end was seen: then the number may be another's.
    package func send(signal: Int32) {
        if isRunning { Glibc.kill(pid, signal) }
    }

    /// Waits for its end; false when it still runs after `limit`.
    package func waitForEnd(within limit: Duration) async -> Bool {
        let begin = MonotonicInstant.now
        while isRunning {
            guard begin.elapsed < limit, (try? await pause(for: .milliseconds(2))) != nil else { return !isRunning }
        }
        return true
    }

    /// SIGKILL, and its end.
    package func kill() async {
        send(signal: SIGKILL)
        _ = await waitForEnd(within: .seconds(10))
    }

    /// Resident memory in bytes; nil when it has ended.
    package var residentBytes: Int? { isRunning ? ProcessLook(of: pid)?.residentBytes : nil }

    /// A library's socket without close-on-exec in a child would keep a connection open that we closed.
    private static func keepDescriptorsFromChildren() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            guard let fd = Int32(name), fd > 2 else { continue }
            _ = fcntl(fd, F_SETFD, FD_CLOEXEC)
        }
    }

    private static func inherited(besides own: [String: String]) -> [String] {
        var variables: [String] = []
        var next = environ
        while let variable = next.pointee {
            let text = String(cString: variable)
            let name = String(text.prefix { $0 != "=" })
            // TELLER_… of the surroundings must not configure what is under test.
            if own[name] == nil, !name.hasPrefix("TELLER_") { variables.append(text) }
            next += 1
        }
        return variables
    }
}
