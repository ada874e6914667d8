package import Glibc
package import HTTP
package import ServiceRuntime

/// One `teller api` or `teller worker`, to be killed, frozen and started again.
@LoopActor
package final class TellerProcess {
    /// Which of the two.
    package enum Role: String, Sendable {
        case api
        case worker
    }

    /// Which of the two.
    package let role: Role
    /// Such as `worker-1`; its log is `<name>.log` in the harness's directory.
    package let name: String
    /// The API's port; 0 for a worker.
    package var port: Int { ownPort?.number ?? 0 }
    /// Where `/metrics` and `/readyz` are.
    package var operationsPort: Int { ownOperationsPort.number }
    /// The file of its log lines.
    package let log: String
    private let ownPort: FreePort?
    private let ownOperationsPort: FreePort
    private let words: [String]
    private let environment: [String: String]
    private var child: ChildProcess?
    /// When it was last started.
    package private(set) var startedAt = MonotonicInstant.now
    /// Whether it was told to run and has ended all the same.
    package var hasEndedByItself: Bool { shouldRun && !isRunning }
    private var shouldRun = false
    /// Whether it is stopped by ``freeze()``.
    package private(set) var isFrozen = false

    init(_ role: Role, _ name: String, program: String, directory: String, environment: [String: String]) throws {
        self.role = role
        self.name = name
        self.environment = environment
        log = "\(directory)/\(name).log"
        let ownPort = role == .api ? try FreePort() : nil
        let ownOperationsPort = try FreePort()
        self.ownPort = ownPort
        self.ownOperationsPort = ownOperationsPort
        var words = [
            program, role.rawValue, "--config", directory + "/teller.json", "--operations-listen",
            "127.0.0.1:\(ownOperationsPort.number)",
        ]
        if let ownPort { words += ["--listen", "127.0.0.1:\(ownPort.number)"] }
        self.words = words
    }

    /// Its process id while it runs.
    package var pid: pid_t? { isRunning ? child?.pid : nil }
    /// Whether it runs, frozen or not.
    package var isRunning: Bool { child?.isRunning ?? false }
    /// Whether it can work.
    package var isAtWork: Bool { isRunning && !isFrozen }
    /// Resident memory in bytes.
    package var residentBytes: Int? { child?.residentBytes }

    /// Starts it.
    package func start() throws {
        precondition(!isRunning, "\(name) runs already")
        isFrozen = false
        shouldRun = true
        startedAt = .now
        child = try ChildProcess(words, environment: environment, log: log)
    }

    /// SIGKILL, and its end; returns when the signal was sent.
    @discardableResult
    package func kill() async -> MonotonicInstant {
        let at = MonotonicInstant.now
        shouldRun = false
        await child?.kill()
        isFrozen = false
        return at
    }

    /// SIGTERM, and its end; false when it had to be killed after `limit`.
    package func stop(within limit: Duration) async -> Bool {
        shouldRun = false
        child?.send(signal: SIGTERM)
        guard await child?.waitForEnd(within: limit) == false else { return true }
        await kill()
        return false
    }

    /// SIGTERM only.
    package func terminate() {
        shouldRun = false
        child?.send(signal: SIGTERM)
    }

    /// Waits for its end.
    package func waitForEnd(within limit: Duration) async -> Bool { await child?.waitForEnd(within: limit) ?? true }

    /// Stops it in its tracks: to everybody else it looks dead.
    package func freeze() {
        isFrozen = true
        child?.send(signal: SIGSTOP)
    }

    /// Lets it go on.
    package func thaw() {
        isFrozen = false
        child?.send(signal: SIGCONT)
    }

    /// Waits until its `/readyz` says yes.
    package func waitUntilReady(_ http: HTTPClient, within limit: Duration = .seconds(30)) async throws {
        let begin = MonotonicInstant.now
        while begin.elapsed < limit {
            guard isRunning else { throw LabError.stage("\(name) has ended, see \(log)") }
            let request = OutgoingRequest(
                .get, "http://127.0.0.1:\(operationsPort)/readyz", deadline: .seconds(1))
            if (try? await http.send(request))?.status == 200 { return }
            try await pause(for: .milliseconds(20))
        }
        throw LabError.stage("\(name) is not ready after \(limit), see \(log)")
    }
}
