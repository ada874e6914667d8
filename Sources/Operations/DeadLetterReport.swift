public import Jobs
import ServiceRuntime

/// Dead letters for people and programs: what `teller dead` prints.
///
/// The job itself holds a receipt, which belongs in no terminal log, so it is shown only when asked for.
public struct DeadLetterReport: Sendable {
    private let letters: [DeadLetter]

    /// Reports on these.
    public init(_ letters: [DeadLetter]) { self.letters = letters }

    /// One line each.
    public var text: String {
        guard !letters.isEmpty else { return "No dead letters." }
        var table = TextTable(["id", "queue", "buried", "attempts", "crashes", "submission", "reasons"])
        for letter in letters {
            let cut = letter.isTruncated ? ["only its beginning was kept"] : []
            table.add([
                letter.id, letter.queue, letter.buriedAt.rfc3339, "\(letter.attempts)", "\(letter.crashes)",
                letter.submission ?? "-", (letter.reasons + cut).joined(separator: "; "),
            ])
        }
        return table.text
    }

    /// One JSON object a line.
    ///
    /// - Parameter withPayload: also the job as it was pushed.
    /// - Returns: The lines, joined by line feeds.
    public func json(withPayload: Bool) -> String {
        letters.map { letter in
            var writer = JSONWriter(capacity: 512)
            writer.object { writer in
                writer.member("id", letter.id)
                writer.member("queue", letter.queue)
                writer.member("submissionId", letter.submission)
                writer.member("buriedAt", letter.buriedAt.rfc3339)
                writer.member("firstSeen", letter.firstSeen.rfc3339)
                writer.member("attempts", letter.attempts)
                writer.member("crashes", letter.crashes)
                writer.member("crashesAlone", letter.aloneCrashes)
                writer.member("reasons", array: { writer in for reason in letter.reasons { writer.element(reason) } })
                writer.member("sha1", letter.sha1)
                writer.member("bytes", letter.entryBytes)
                writer.member("isTruncated", letter.isTruncated)
                if withPayload { writer.member("job", String(decoding: letter.payload, as: UTF8.self)) }
            }
            return writer.text
        }.joined(separator: "\n")
    }
}
