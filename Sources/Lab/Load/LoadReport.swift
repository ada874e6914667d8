import ServiceRuntime

/// What a load run did and was told.
public struct LoadReport: Sendable {
    /// The seed that decided the run.
    public internal(set) var seed: UInt64 = 0
    /// From the first receipt to the last final answer.
    public internal(set) var took: Duration = .zero
    /// Receipts handed in, by kind.
    public internal(set) var handedIn: [SubmissionKind: Int] = [:]
    /// Final answers, by kind and by what was answered (`credited`, `credited before`, a reason's slug, …).
    public internal(set) var answers: [SubmissionKind: [String: Int]] = [:]
    /// Time to the final answer by kind, from the scheduled time in open loop; without those that gave up.
    public internal(set) var latencies: [SubmissionKind: LatencyHistogram] = [:]
    /// Requests or pushes, repetitions included.
    public internal(set) var attempts = 0
    /// Repetitions, by what made them necessary.
    public internal(set) var retries: [String: Int] = [:]
    /// Answers that contradict the ground truth, such as "a forged receipt was credited"; at most 100 are kept.
    public internal(set) var wrongAnswers: [String] = []
    /// How many there were.
    public internal(set) var wrongAnswerCount = 0
    /// Receipts without a final answer within the client's patience.
    public internal(set) var gaveUp = 0
    /// Purchases made at the emulator, those included that were not needed.
    public internal(set) var bought = 0
    /// The watched processes, in the order of the plan, and last the generator itself.
    public internal(set) var processes: [ProcessUsage] = []
    /// What clients were told, for the audit.
    public internal(set) var heard = HeardAnswers()
    /// Why the run ended before its time, if it did.
    public internal(set) var endedEarly: String?

    /// Final answers of all kinds.
    public var finished: Int { answers.values.reduce(0) { $0 + $1.values.reduce(0, +) } - gaveUp }
    /// Final answers a second.
    public var perSecond: Double { took > .zero ? Double(finished) / took.inSeconds : 0 }
    /// The latencies of all kinds together.
    public var latency: LatencyHistogram {
        latencies.values.reduce(into: LatencyHistogram()) { $0.merge($1) }
    }
    /// Whether every client was told the right thing in the end.
    public var isClean: Bool { wrongAnswerCount == 0 && gaveUp == 0 && endedEarly == nil }

    mutating func record(_ submission: Submission, _ answer: FinalAnswer, latency: Duration) {
        let kind = submission.kind
        answers[kind, default: [:]][answer.word, default: 0] += 1
        if case .gaveUp = answer { gaveUp += 1 } else { latencies[kind, default: LatencyHistogram()].record(latency) }
        heard.record(submission, answer)
        guard !answer.isRight(for: kind) else { return }
        wrongAnswerCount += 1
        guard wrongAnswers.count < 100 else { return }
        let id = submission.purchase.store == "apple" ? submission.purchase.id : "of google"
        wrongAnswers.append("\(kind.rawValue) \(id) by \(submission.player): answered \(answer.word)")
    }
}

/// What clients were told about purchases, by the stores' names of them: what an audit may hold Teller to.
public struct HeardAnswers: Sendable, Equatable {
    /// Somebody heard that Teller has it (credited, pending, or pushed onto the list): it must be credited if it is good.
    public internal(set) var accepted: Set<String> = []
    /// The buyer heard "credited".
    public internal(set) var credited: Set<String> = []

    /// Nothing heard.
    public init() {}

    /// What was heard by other means than a load run.
    public static func hearing(credited: Set<String>, accepted: Set<String> = []) -> HeardAnswers {
        var heard = HeardAnswers()
        heard.credited = credited
        heard.accepted = accepted.union(credited)
        return heard
    }

    mutating func record(_ submission: Submission, _ answer: FinalAnswer) {
        guard submission.kind == .purchase || submission.kind == .duplicate else { return }
        switch answer {
        case .credited:
            accepted.insert(submission.purchase.id)
            credited.insert(submission.purchase.id)
        case .gaveUp(_, wasAccepted: false): break
        default: accepted.insert(submission.purchase.id)
        }
    }
}
