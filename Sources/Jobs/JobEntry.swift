/// The header that the queue writes before a payload: `T1 <submission or -> <attempts> <first seen ms> <crashes> <crashes
/// while alone>[ <salt>]\n`.
///
/// It travels with the payload through all lists, so a job and what is known of it can never be separated by a crash.
/// An entry without it is a bare payload that another program pushed. `prelude.lua` reads the same format.
struct JobEntry: Equatable {
    var submission: String?
    var attempts = 0
    /// Milliseconds since 1970 by Redis' clock; nil for a bare payload.
    var firstSeenMs: Int64?
    var crashes = 0
    var aloneCrashes = 0
    /// Where the payload begins.
    var payloadOffset = 0

    private static let mark = Array("T1 ".utf8)
    /// Longest header looked at: every field at its limit, and room.
    private static let headerBytesMax = 512

    /// Reads the header; nil when the entry claims to have one (`T1 `) that cannot be read.
    init?(_ bytes: [UInt8]) {
        guard bytes.starts(with: Self.mark) else { return }
        guard let end = bytes.prefix(Self.headerBytesMax).firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let fields = bytes[Self.mark.count..<end].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard fields.count >= 5, let attempts = Self.number(fields[1]), let seen = Self.number(fields[2]),
            let crashes = Self.number(fields[3]), let aloneCrashes = Self.number(fields[4])
        else { return nil }
        let name = String(decoding: fields[0], as: UTF8.self)
        guard name == "-" || JobName.isValid(name) else { return nil }
        submission = name == "-" ? nil : name
        self.attempts = Int(attempts)
        firstSeenMs = seen
        self.crashes = Int(crashes)
        self.aloneCrashes = Int(aloneCrashes)
        payloadOffset = end + 1
    }

    /// A first entry: header and payload.
    static func first(submission: String, firstSeenMs: Int64, payload: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(payload.count + 64 + submission.utf8.count)
        bytes.append(contentsOf: mark)
        bytes.append(contentsOf: submission.utf8)
        bytes.append(contentsOf: " 0 \(firstSeenMs) 0 0\n".utf8)
        bytes.append(contentsOf: payload)
        return bytes
    }

    /// 1 to 15 decimal digits: Lua's numbers are exact that far.
    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        guard (1...15).contains(digits.count) else { return nil }
        var value: Int64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            value = value * 10 + Int64(digit - UInt8(ascii: "0"))
        }
        return value
    }
}
