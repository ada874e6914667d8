import Glibc
public import ServiceRuntime

/// Tells where a run stands on standard error: one line that is written over on a terminal, else a plain line every few
/// seconds, which is what logs want.
@LoopActor
public final class ProgressLine {
    private static let plainEvery: Duration = .seconds(5)

    private let isTerminal: Bool
    private let write: @LoopActor (String) -> Void
    private var lastPlain: MonotonicInstant?
    private var isOpen = false

    /// A line on standard error.
    public convenience init() {
        self.init(isTerminal: isatty(2) == 1) { text in
            let bytes = Array(text.utf8)
            bytes.withUnsafeBytes { _ = Glibc.write(2, $0.baseAddress, $0.count) }
        }
    }

    init(isTerminal: Bool, write: @escaping @LoopActor (String) -> Void) {
        self.isTerminal = isTerminal
        self.write = write
    }

    /// Shows where a load run stands.
    public func show(_ progress: LoadProgress) { show(progress.text) }

    /// Shows a line of text.
    public func show(_ text: String) {
        if isTerminal {
            write("\r\u{1B}[2K\(text)")
            isOpen = true
        } else if lastPlain.map({ $0.elapsed >= Self.plainEvery }) ?? true {
            lastPlain = .now
            write(text + "\n")
        }
    }

    /// Shows a line that stays, whatever comes after it.
    public func keep(_ text: String) {
        close()
        write(text + "\n")
    }

    /// Makes room for what comes next.
    public func close() {
        if isOpen { write("\r\u{1B}[2K") }
        isOpen = false
    }
}

extension LoadProgress {
    /// One line for people.
    public var text: String {
        let amount = total.map { "\(done)/\($0)" } ?? "\(done)"
        switch phase {
        case .buying: return "buying: \(amount)"
        case .running, .draining:
            return "\(LabText.seconds(elapsed)) s  \(amount) handed in  \(inFlight) in flight  "
                + "\(LabText.fixed(perSecond, 0))/s  p99 \(LabText.milliseconds(p99)) ms  again \(retries)  "
                + "wrong \(wrongAnswers)" + (phase == .draining ? "  (waiting for the last)" : "")
        }
    }
}
