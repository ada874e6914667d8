import Jobs
import Operations
import Redis
import ServiceRuntime

private let about = """
    A dead letter is a job that no worker will touch again by itself: unreadable, without an answer from the store for
    72 hours, at hand when several workers crashed, or a purchase that would take its player's balance past 2^53 - 1
    (balance-too-large). It stays until somebody replays or drops it. Malformed is what
    another program pushed and no worker could read. Only its first 4 KiB are kept; a longer one cannot be replayed:
    whoever pushed it has to push it again, corrected.
    """

let deadListCommand = Command(
    "dead list", "lists dead letters, newest first", details: about,
    options: Foundations.options + [
        .init("limit", "N", "at most so many (default 20, at most 100)"),
        .init("offset", "N", "pass over so many (default 0)"),
        .init("json", nil, "one JSON object a line"),
    ]
) { arguments in
    let limit = try arguments.integer("limit", in: 1...JobQueue.deadPageMax, default: 20)
    let offset = try arguments.integer("offset", in: 0...Int(Int32.max), default: 0)
    return try await withQueue(arguments) { jobs, _ in
        let total = try await jobs.deadCount()
        let letters = try await jobs.deadLetters(offset: offset, limit: limit)
        let report = DeadLetterReport(letters)
        if arguments.has("json") {
            // No letters, no line: an empty one is not the object that a reader of lines expects.
            if !letters.isEmpty { print(report.json(withPayload: false)) }
            return 0
        }
        let isPastTheEnd = letters.isEmpty && total > 0
        print(isPastTheEnd ? "No dead letters after the first \(total)." : report.text)
        let shown = offset + letters.count
        if shown < total { print("\(total - shown) more: --offset \(shown)") }
        return 0
    }
}

let deadShowCommand = Command(
    "dead show", "shows one dead letter", details: about, operands: "ID",
    options: Foundations.options + [.init("payload", nil, "also the job itself, which contains a receipt")]
) { arguments in
    guard let id = arguments.operands.first, arguments.operands.count == 1 else {
        throw UsageError("give one id, as `teller dead list` shows it")
    }
    return try await withQueue(arguments) { jobs, _ in
        guard let letter = try await jobs.deadLetter(id) else { throw UsageError("there is no dead letter \(id)") }
        print(DeadLetterReport([letter]).json(withPayload: arguments.has("payload")))
        return 0
    }
}

let deadReplayCommand = Command(
    "dead replay", "puts dead letters back into their queues",
    details: about + """


        Replaying is safe at any time: what was credited before is found credited. Exit code 1: one that was named could
        not be replayed. --all passes over those that nobody can replay, and says what to do about them.
        """, operands: "ID…",
    options: Foundations.options + [.init("all", nil, "every dead letter there is now")]
) { arguments in
    let isAll = arguments.has("all")
    guard isAll != !arguments.operands.isEmpty else {
        throw UsageError("give ids, or --all")
    }
    return try await withQueue(arguments) { jobs, _ in
        // Read before the first replay, so that one which dies again is not replayed in circles.
        let ids = isAll ? try await jobs.deadIDs() : arguments.operands
        var replayed = 0
        var hopeless: [ReplayOutcome: Int] = [:]
        for id in ids {
            let outcome = try await jobs.replay(id)
            if outcome == .replayed { replayed += 1 }
            hopeless[outcome, default: 0] += 1
            print("\(id): \(outcome.explanation)")
        }
        print("\(replayed) of \(ids.count) replayed")
        if isAll, let count = hopeless[.truncated] {
            print("\(count) truncated: never to be replayed. `teller dead show ID`, then `teller dead drop ID…`")
        }
        if isAll, let count = hopeless[.changed] {
            print("\(count) changed: never to be replayed. `teller dead drop --force ID…` removes them")
        }
        return isAll || replayed == ids.count ? 0 : 1
    }
}

let deadDropCommand = Command(
    "dead drop", "removes dead letters for good",
    details: about + """


        Only what is malformed is dropped. There may be a purchase in it all the same, say beside a misspelt field, and
        only its sender knows: ask first. Anything else may be a purchase that was paid, or what Google waits to hear of
        one: replay it. --force drops that, too, and a record that was damaged. A drop cannot be undone, but a receipt
        that is sent again is served as if it had never been here. Each dropped letter leaves a line in the log
        (standard error) with its id, reasons, size and SHA-1, never with the job; so does one of which nobody knows
        whether it was dropped, because the connection to Redis broke. Exit code 1: one that was named was not dropped.

        Example: teller dead drop --all-malformed 2>>/var/log/teller-dropped.log
        """, operands: "ID…",
    options: Foundations.options + [
        .init("all-malformed", nil, "every malformed dead letter there is now"),
        .init("force", nil, "also those that may be purchases"),
    ]
) { arguments in
    let isAll = arguments.has("all-malformed")
    guard isAll != !arguments.operands.isEmpty else {
        throw UsageError("give ids, or --all-malformed")
    }
    guard !(isAll && arguments.has("force")) else {
        throw UsageError("--force is for ids: what may be a purchase is not dropped by the dozen")
    }
    return try await withQueue(arguments) { jobs, logger in
        let ids = isAll ? try await jobs.deadIDs() : arguments.operands
        var dropped = 0
        for id in ids {
            let outcome = try await drop(id, force: arguments.has("force"), from: jobs, logger)
            if case .dropped = outcome { dropped += 1 }
            // Those that stay are what --all-malformed is not about.
            if !isAll || outcome != .kept { print("\(id): \(outcome.explanation)") }
        }
        print(isAll ? "\(dropped) dropped, \(ids.count - dropped) left" : "\(dropped) of \(ids.count) dropped")
        return isAll || dropped == ids.count ? 0 : 1
    }
}

/// Drops one, and says so in the log; also when only the answer was lost, and with it what the letter was.
@LoopActor
private func drop(_ id: String, force: Bool, from jobs: JobQueue, _ logger: Logger) async throws -> DropOutcome {
    let before = try await jobs.deadLetter(id)
    do throws(RedisError) {
        let outcome = try await jobs.drop(id, force: force)
        if case .dropped(let letter) = outcome {
            logger.notice("dead letter dropped", letter?.logFields ?? ["id": .string(id)])
        }
        return outcome
    } catch {
        if error.mayHaveBeenApplied {
            logger.notice("dead letter perhaps dropped", before?.logFields ?? ["id": .string(id)])
        }
        throw error
    }
}

extension ReplayOutcome {
    fileprivate var explanation: String {
        switch self {
        case .replayed: "replayed"
        case .missing: "missing: there is no such dead letter"
        case .truncated:
            "truncated: only the beginning of this malformed job was kept, so it cannot be replayed; whoever pushed it "
                + "has to push it again, corrected"
        case .changed: "changed: the record is not as Teller wrote it, so nothing was done"
        }
    }
}

extension DropOutcome {
    fileprivate var explanation: String {
        switch self {
        case .dropped(let letter?): "dropped (\(letter.queue), \(letter.entryBytes) bytes, SHA-1 \(letter.sha1))"
        case .dropped(nil): "dropped (its record could not be read)"
        case .kept:
            "kept: it may be a purchase that was paid, or its duty. Replay it; or, if you are sure, --force"
        case .missing: "missing: there is no such dead letter"
        }
    }
}

extension DeadLetter {
    /// What is left of it after a drop.
    fileprivate var logFields: [String: LogValue] {
        [
            "id": .string(id), "queue": .string(queue), "submission": .string(submission ?? "-"),
            "reasons": .string(reasons.joined(separator: "; ")), "bytes": .count(entryBytes), "sha1": .string(sha1),
            "buriedAt": .string(buriedAt.rfc3339),
        ]
    }
}

@LoopActor
private func withQueue(
    _ arguments: Arguments, _ body: (JobQueue, Logger) async throws -> Int32
) async throws -> Int32 {
    let foundations = try Foundations(arguments, label: "dead", logLevel: .error)
    // What was done to somebody's receipt is always said.
    let record = Logger(label: "dead", sink: foundations.sink, level: .notice)
    defer { foundations.sink.flush() }
    do {
        let jobs = foundations.jobs(try await foundations.connect(within: Foundations.patience))
        let code = try await body(jobs, record)
        await foundations.redis.stop()
        return code
    } catch {
        throw foundations.explained(error)
    }
}
