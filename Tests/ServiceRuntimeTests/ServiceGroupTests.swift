import Glibc
import ServiceRuntime
import TestSupport
import Testing

@Suite @LoopActor struct ServiceGroupTests {
    private struct Unwell: Error, CustomStringConvertible {
        let secret = "hunter2"
        let description = "not well"
    }

    /// What happened, in order.
    @LoopActor private final class Journal {
        var entries: [String] = []
        func add(_ entry: String) { entries.append(entry) }
    }

    private func group(
        _ names: [String], _ journal: Journal, stopWithin: Duration = .seconds(5), logger: Logger = .disabled
    ) -> ServiceGroup {
        let group = ServiceGroup(logger: logger, stopWithin: stopWithin)
        for name in names {
            group.add(name) {
                journal.add("+" + name)
            } stop: { _ in
                journal.add("-" + name)
            }
        }
        return group
    }

    @Test func startsInOrderAndStopsInReverse() async throws {
        let journal = Journal()
        let group = group(["redis", "http", "api"], journal)
        try await group.start()
        let reports = await group.stop()
        #expect(journal.entries == ["+redis", "+http", "+api", "-api", "-http", "-redis"])
        #expect(reports.map(\.service) == ["api", "http", "redis"])
        #expect(reports.map(\.inTime) == [true, true, true])
        #expect(await group.stop() == [], "a second stop finds nothing to stop")
    }

    @Test func aFailedStartStopsWhatWasStarted() async {
        let journal = Journal()
        let group = group(["redis", "http"], journal)
        group.add("api") {
            throw Unwell()
        } stop: { _ in
            journal.add("-api")
        }
        group.add("later") { journal.add("+later") }
        let error = await #expect(throws: ServiceStartError.self) { try await group.start() }
        #expect(error?.service == "api")
        #expect(error?.cause is Unwell)
        #expect(journal.entries == ["+redis", "+http", "-http", "-redis"])
    }

    @Test func aServiceThatDoesNotStopIsLeftBehindAndTheOthersGetTheirTurn() async throws {
        let journal = Journal()
        let group = group(["redis"], journal, stopWithin: .milliseconds(50))
        let never = Completion<Void>()
        group.add("stuck") {
        } stop: { _ in
            await never.wait()
        }
        group.add("api") {
            journal.add("+api")
        } stop: { _ in
            journal.add("-api")
        }
        try await group.start()
        let reports = await group.stop()
        #expect(journal.entries == ["+redis", "+api", "-api", "-redis"])
        #expect(reports.map(\.inTime) == [true, false, true])
        #expect(reports.map(\.service) == ["api", "stuck", "redis"])
        never.complete(())
    }

    @Test func runEndsWithZeroAfterAShutdown() async throws {
        let journal = Journal()
        let group = group(["redis", "api"], journal)
        let shutdown = Shutdown()
        let code = Task { @LoopActor @Sendable in await group.run(until: shutdown) }
        try await eventually("start") { journal.entries.count == 2 }
        shutdown.request()
        #expect(await code.value == 0)
        #expect(journal.entries == ["+redis", "+api", "-api", "-redis"])
    }

    @Test func aShutdownDuringTheStartCancelsItAndStopsTheRest() async throws {
        let journal = Journal()
        let group = group(["redis"], journal)
        group.add("slow") {
            journal.add("starting slow")
            try await pause(for: .seconds(3600))
        } stop: { _ in
            journal.add("-slow")
        }
        group.add("later") { journal.add("+later") }
        let shutdown = Shutdown()
        let code = Task { @LoopActor @Sendable in await group.run(until: shutdown) }
        try await eventually("start of slow") { journal.entries.contains("starting slow") }
        shutdown.request()
        #expect(await code.value == 0)
        #expect(journal.entries == ["+redis", "starting slow", "-redis"])
    }

    @Test func aStartThatSucceedsInSpiteOfTheShutdownIsStopped() async throws {
        let journal = Journal()
        let group = group([], journal)
        group.add("stubborn") {
            journal.add("starting")
            try? await pause(for: .seconds(3600))
        } stop: { _ in
            journal.add("-stubborn")
        }
        let shutdown = Shutdown()
        let code = Task { @LoopActor @Sendable in await group.run(until: shutdown) }
        try await eventually("start") { journal.entries == ["starting"] }
        shutdown.request()
        #expect(await code.value == 0)
        #expect(journal.entries == ["starting", "-stubborn"])
    }

    @Test func runEndsWithOneAndSaysWhyWhenAServiceDoesNotStart() async throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let sink = LogSink(descriptor: ends[1], format: .json)
        let group = ServiceGroup(logger: Logger(label: "main", sink: sink))
        group.add("api") { throw Unwell() }
        #expect(await group.run(until: Shutdown()) == 1)
        sink.flush()
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let log = String(decoding: bytes[..<max(0, read(ends[0], &bytes, bytes.count))], as: UTF8.self)
        #expect(log.contains(#""event":"service did not start","cause":"not well","service":"api""#))
        #expect(!log.contains("hunter2"))
    }

    @Test func systemdHearsReadyAndStopping() async throws {
        let path = "/tmp/notify-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        let listener = try DatagramListener(path: path)
        let group = ServiceGroup(logger: .disabled, systemd: SystemdNotifier(socketPath: path))
        group.add("api")
        let shutdown = Shutdown()
        let code = Task { @LoopActor @Sendable in await group.run(until: shutdown) }
        try await eventually("READY=1") { listener.receive() == "READY=1" }
        shutdown.request()
        _ = await code.value
        #expect(listener.receive() == "STOPPING=1")
    }

    @Test(arguments: [nil, "", "/", "@", "relative", "/nonexistent/socket", String(repeating: "/x", count: 200)])
    func aMissingOrWrongNotifySocketIsHarmless(_ path: String?) {
        SystemdNotifier(socketPath: path).ready()
    }
}

/// Plays systemd's side of the notify socket.
private final class DatagramListener {
    private let descriptor: Int32
    private let path: String

    init(path: String) throws {
        self.path = path
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    func receive() -> String? {
        var bytes = [UInt8](repeating: 0, count: 1_024)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }
}
