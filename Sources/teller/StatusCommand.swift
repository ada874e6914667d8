import Glibc
import Jobs
import Operations
import Redis
import ServiceRuntime

let statusCommand = Command(
    "status", "shows queues, workers and rates",
    details: """
        Depth and oldest age of each list, the workers with their heartbeats, dead letters, and how many submissions
        were settled a second while it listened. An age is unknown for jobs that another program pushed. On a terminal
        --watch stays in one place; into a file or a pipe it writes one report after the other.
        """,
    options: Foundations.options + [
        .init("watch", nil, "show it again and again until interrupted"),
        .init("interval", "SECONDS", "how long each look listens (default 1)"),
        .init("json", nil, "one JSON object a line"),
    ]
) { arguments in
    let foundations = try Foundations(arguments, label: "status", logLevel: .error)
    let interval = try arguments.number("interval", in: 0.1...3600, default: 1)
    let shutdown = Shutdown.onSignals()
    let isProgram = arguments.has("json")
    let isWatching = arguments.has("watch")
    // Clear the screen and go home: the report stays in place while it is watched.
    let start = isWatching && !isProgram && isatty(STDOUT_FILENO) == 1 ? "\u{1B}[2J\u{1B}[H" : ""
    var found: Meta?
    while found == nil {
        do {
            found = try await foundations.connect(within: Foundations.patience)
        } catch {
            // Who watches wants to see it come.
            guard isWatching, !isProgram else { throw foundations.explained(error) }
            print(start + "Redis: \(foundations.explained(error))")
            guard fflush(nil) == 0 else { break }
            _ = try await withDeadline(.seconds(interval)) { await shutdown.wait() }
            if shutdown.isRequested { break }
        }
    }
    guard let meta = found else {
        await foundations.redis.stop()
        return 0
    }
    let jobs = foundations.jobs(meta)
    var settled = 0
    let count = SettledCount()
    let feed = RedisSubscriber(
        foundations.redisConfiguration, logger: foundations.logger, metrics: nil, channels: [jobs.settledChannel],
        onMessage: { _, ids in count.value += ids.count { $0 == UInt8(ascii: "\n") } + 1 }, onResubscribed: {})
    feed.start()
    repeat {
        let began = MonotonicInstant.now
        _ = try await withDeadline(.seconds(interval)) { await shutdown.wait() }
        let rate = Double(count.value - settled) / began.elapsedSeconds
        settled = count.value
        do {
            let report = try await StatusReport.read(jobs, settledPerSecond: rate)
            print(start + (isProgram ? report.json : report.text))
        } catch {
            // Who watches wants to see it come back.
            guard isWatching, !isProgram else { throw foundations.explained(error) }
            print(start + "Redis: \(foundations.explained(error))")
        }
        if isWatching, !isProgram, start.isEmpty { print() }
        // A pipe is to have each report when it is made; and when nobody reads it any more, that is the end.
        guard fflush(nil) == 0 else { break }
    } while isWatching && !shutdown.isRequested
    await feed.stop()
    await foundations.redis.stop()
    return 0
}

@LoopActor
private final class SettledCount {
    var value = 0
}
