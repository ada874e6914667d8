import Jobs
import Operations
import Redis
import ServiceRuntime

private let about = """
    A dead letter is a job that no worker will touch again by itself: malformed, without an answer from the store for
    72 hours, or at hand when several workers crashed. Nothing is ever removed from them but by replaying. Of a malformed
    job only the first 4 KiB are kept; a longer one cannot be replayed: whoever pushed it has to push it again, corrected.
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
    return try await withQueue(arguments) { jobs in
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
    return try await withQueue(arguments) { jobs in
        guard let letter = try await jobs.deadLetter(id) else { throw UsageError("there is no dead letter \(id)") }
        print(DeadLetterReport([letter]).json(withPayload: arguments.has("payload")))
        return 0
    }
}

let deadReplayCommand = Command(
    "dead replay", "puts dead letters back into their queues",
    details: about + "\nReplaying is safe at any time: what was credited before is found credited.", operands: "ID…",
    options: Foundations.options + [.init("all", nil, "every dead letter there is now")]
) { arguments in
    guard arguments.has("all") != !arguments.operands.isEmpty else {
        throw UsageError("give ids, or --all")
    }
    return try await withQueue(arguments) { jobs in
        let ids = arguments.has("all") ? try await allDead(jobs) : arguments.operands
        var refused = 0
        for id in ids {
            let outcome = try await jobs.replay(id)
            if outcome != .replayed { refused += 1 }
            print("\(id): \(outcome.explanation)")
        }
        print("\(ids.count - refused) of \(ids.count) replayed")
        return refused == 0 ? 0 : 1
    }
}

/// Every id there is now; read before the first replay, so that one which dies again is not replayed in circles.
@LoopActor
private func allDead(_ jobs: JobQueue) async throws -> [String] {
    var ids: [String] = []
    // By place and not by what could be read: a record that was damaged must not end the list, or repeat it for ever.
    for offset in stride(from: 0, to: try await jobs.deadCount(), by: JobQueue.deadPageMax) {
        for letter in try await jobs.deadLetters(offset: offset) where !ids.contains(letter.id) {
            ids.append(letter.id)
        }
    }
    return ids
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

@LoopActor
private func withQueue(_ arguments: Arguments, _ body: (JobQueue) async throws -> Int32) async throws -> Int32 {
    let foundations = try Foundations(arguments, label: "dead", logLevel: .error)
    do {
        let code = try await body(foundations.jobs(try await foundations.connect(within: Foundations.patience)))
        await foundations.redis.stop()
        return code
    } catch {
        throw foundations.explained(error)
    }
}
