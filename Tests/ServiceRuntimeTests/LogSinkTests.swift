import Glibc
import ServiceRuntime
import Testing

/// A pipe whose read end is ours; both ends are closed with it.
private final class Pipe: Sendable {
    let readEnd: Int32
    let writeEnd: Int32

    init(socket isSocket: Bool = false) throws {
        var ends: [Int32] = [0, 0]
        let made = isSocket ? socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) : pipe(&ends)
        try #require(made == 0)
        (readEnd, writeEnd) = (ends[0], ends[1])
        _ = fcntl(readEnd, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// What can be read without waiting.
    func take() -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(readEnd, &chunk, chunk.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += chunk[..<count]
        }
    }

    func lines() -> [String] { take().split(separator: "\n").map(String.init) }
}

@Suite struct LogSinkTests {
    private static let clock = WallClock { UnixMilliseconds(1_796_018_745_123) }
    /// Everything a line could be forged with: newlines, quotes, escapes of terminals, a bidirectional override.
    private static let hostile =
        "a\n{\"level\":\"error\"}\r\u{1b}[2K\u{7f}\u{9b}31m\u{2028}\u{202e}\u{1}\" \\ level=error"

    private func logged(_ format: LogFormat, level: LogLevel = .info, _ body: (Logger) -> Void) throws -> [String] {
        let pipe = try Pipe()
        let sink = LogSink(descriptor: pipe.writeEnd, format: format, clock: Self.clock)
        body(Logger(label: "redis", sink: sink, level: level))
        #expect(sink.flush())
        return pipe.lines()
    }

    @Test func aLineIsOneObjectWithSortedFields() throws {
        let lines = try logged(.json) { logger in
            logger.warning("lease failed", ["queue": "apple", "attempts": 3, "seconds": 0.5, "isLast": false])
        }
        #expect(
            lines == [
                #"{"time":"2026-11-30T06:05:45.123Z","level":"warning","logger":"redis","event":"lease failed","#
                    + #""attempts":3,"isLast":false,"queue":"apple","seconds":0.5}"#
            ])
    }

    @Test func aTextLineIsMadeForPeople() throws {
        let lines = try logged(.text) { logger in
            logger.info("lease failed", ["queue": "apple", "empty": "", "attempts": 3, "why": .string("not \"here\"")])
        }
        #expect(
            lines == [
                #"2026-11-30T06:05:45.123Z info redis: lease failed attempts=3 empty="" queue=apple why="not \"here\"""#
            ])
    }

    @Test(arguments: [LogFormat.json, .text])
    func noValueOrKeyCanForgeALine(_ format: LogFormat) throws {
        let lines = try logged(format) { logger in
            logger.info("event", ["value": .string(Self.hostile), Self.hostile: "key"])
        }
        #expect(lines.count == 1)
        let line = try #require(lines.first)
        #expect(line.unicodeScalars.allSatisfy { $0.value >= 0x20 })
        if case .json = format {
            let view = try JSONView.parse(line)
            #expect(try view.string("value") == Self.hostile)
            #expect(try view.string("level") == "info")
        } else {
            #expect(line.unicodeScalars.allSatisfy { $0.value < 0x7f }, "no terminal control is left")
            #expect(!line.contains(" level=error "))
        }
    }

    @Test func aFieldCannotTakeTheNameOfThePartsOfALine() throws {
        let lines = try logged(.json) { $0.info("event", ["level": "error", "time": 1, "event": "x", "logger": "y"]) }
        let view = try JSONView.parse(lines.joined())
        #expect(try view.string("level") == "info")
        #expect(try view.string("_level") == "error")
    }

    @Test func aLongValueIsCut() throws {
        let lines = try logged(.json) { $0.info("event", ["value": .string(String(repeating: "ä", count: 100_000))]) }
        #expect(lines.count == 1)
        #expect(lines.joined().utf8.count < 2_300)
    }

    @Test func linesBelowTheLevelCostNothing() throws {
        var evaluated = 0
        let fields: () -> [String: LogValue] = {
            evaluated += 1
            return [:]
        }
        let lines = try logged(.json, level: .notice) { logger in
            logger.debug("debug", fields())
            logger.info("info", fields())
            logger.notice("notice", fields())
            logger.error("error", fields())
            Logger.disabled.error("nowhere", fields())
        }
        #expect(lines.count == 2)
        #expect(evaluated == 2)
    }

    @Test func boundFieldsAreInEveryLineAndYieldToTheLineOwn() throws {
        let lines = try logged(.json) { logger in
            let bound = logger.with(["worker": "w1", "queue": "apple"]).with(["queue": "google"]).labelled("jobs")
            bound.info("one")
            bound.info("two", ["worker": "w2"])
        }
        let views = try lines.map { try JSONView.parse($0) }
        #expect(try views.map { try $0.string("worker") } == ["w1", "w2"])
        #expect(try views.map { try $0.string("queue") } == ["google", "google"])
        #expect(try views.map { try $0.string("logger") } == ["jobs", "jobs"])
    }

    @Test(arguments: [false, true])
    func aFullDescriptorDropsAndCountsInsteadOfWaiting(_ isSocket: Bool) throws {
        let pipe = try Pipe(socket: isSocket)
        let sink = LogSink(descriptor: pipe.writeEnd, format: .json, bufferBytesMax: 20_000, clock: Self.clock)
        let logger = Logger(label: "test", sink: sink)
        let filler = String(repeating: "x", count: 1_000)
        var written = 0
        while sink.droppedLines < 5, written < 10_000 {
            logger.info("filler", ["number": .count(written), "filler": .string(filler)])
            written += 1
        }
        #expect(sink.droppedLines == 5)

        #expect(!sink.flush(within: .milliseconds(30)))
        var lines = pipe.lines()
        while !sink.flush(within: .milliseconds(1)) { lines += pipe.lines() }
        logger.info("after")
        lines += pipe.lines()

        let views = try lines.map { try JSONView.parse($0) }
        let numbers = try views.compactMap { try $0.optionalInt64("number") }
        #expect(numbers == Array(0..<Int64(written - 5)), "the lines before the drops are whole and in order")
        #expect(try views.suffix(2).map { try $0.string("event") } == ["log lines dropped", "after"])
        #expect(try views.dropLast().last?.int64("lines") == 5)
    }

    @Test func aBrokenDescriptorCountsItsLinesAsDropped() throws {
        let sink = LogSink(descriptor: -1, format: .json)
        let logger = Logger(label: "test", sink: sink)
        for _ in 0..<3 { logger.info("lost") }
        #expect(sink.droppedLines >= 3)
    }

    @Test func onTheLoopALineIsOutAfterTheTurn() async throws {
        let pipe = try Pipe()
        let sink = LogSink(descriptor: pipe.writeEnd, format: .json)
        let duringTurn = await onLoop { () -> String in
            let logger = Logger(label: "test", sink: sink)
            logger.info("one")
            logger.info("two")
            return pipe.take()
        }
        #expect(duringTurn == "")
        try await onLoop { try await pause(for: .milliseconds(1)) }
        #expect(pipe.lines().count == 2)
    }

    @Test func onTheLoopAFullPipeIsTriedAgain() async throws {
        let pipe = try Pipe()
        let sink = LogSink(descriptor: pipe.writeEnd, format: .json)
        let total = 300
        await onLoop {
            let logger = Logger(label: "test", sink: sink)
            for _ in 0..<total { logger.info("filler", ["filler": .string(String(repeating: "x", count: 1_000))]) }
        }
        var lines = 0
        let start = MonotonicInstant.now
        while lines < total, start.elapsed < .seconds(10) {
            try await onLoop { try await pause(for: .milliseconds(5)) }
            lines += pipe.take().utf8.count { $0 == 0x0a }
        }
        #expect(lines == total)
    }

    @Test func linesOfManyThreadsStayWhole() async throws {
        let pipe = try Pipe()
        let sink = LogSink(descriptor: pipe.writeEnd, format: .json)
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    let logger = Logger(label: "test", sink: sink)
                    for line in 0..<25 { logger.info("line", ["task": .count(task), "line": .count(line)]) }
                }
                group.addTask { @LoopActor in
                    let logger = Logger(label: "loop", sink: sink)
                    for _ in 0..<25 { logger.info("line") }
                }
            }
        }
        #expect(sink.flush())
        let lines = pipe.lines()
        #expect(lines.count == 400)
        for line in lines { _ = try JSONView.parse(line) }
    }
}

/// Runs `body` as a task of the loop.
private func onLoop<Value: Sendable>(
    _ body: @escaping @LoopActor @Sendable () async throws -> Value
) async rethrows -> Value {
    try await body()
}
