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
    /// What it ended with, as a shell tells it: 128 and the signal when one ended it; nil while it runs.
    package private(set) var exitCode: Int32?

    /// Starts `words`, looked up in PATH, with standard output and error appended to the file `log`.
    package convenience init(
        _ words: [String], environment: [String: String] = [:], log: String
    ) throws(LabError) {
        try self.init(words, environment: environment, input: "/dev/null", output: log, errors: log)
    }

    /// Starts `words`, looked up in PATH, with these files as its standard input, output and error.
    package init(
        _ words: [String], environment: [String: String], input: String, output: String, errors: String
    ) throws(LabError) {
        Self.keepDescriptorsFromChildren()
        var opened: [Int32] = []
        defer { for descriptor in opened { close(descriptor) } }
        for (path, flags) in [
            (input, O_RDONLY), (output, O_WRONLY | O_CREAT | O_APPEND), (errors, O_WRONLY | O_CREAT | O_APPEND),
        ] {
            let descriptor = open(path, flags | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw .stage("\(path): \(String(cString: strerror(errno)))") }
            opened.append(descriptor)
        }
        pid = try Spawn.start(
            ["setpriv", "--pdeathsig", "KILL", "--"] + words, environment: environment, input: opened[0],
            output: opened[1], errors: opened[2])
    }

    /// Whether it has not ended yet.
    package var isRunning: Bool {
        var status: Int32 = 0
        if exitCode == nil, waitpid(pid, &status, WNOHANG) == pid {
            exitCode = status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
        }
        return exitCode == nil
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
}
