/// Guesses which name was meant by one that is not known: "did you mean".
///
/// For messages to people about settings and fields; nothing is ever read under a guessed name.
public enum Spelling {
    /// Most slips between a name and a guess; names under six letters get one, since short words are all alike.
    static let slipsMax = 2

    /// The known name that `written` is most like, capitals aside; nil when it is like none.
    public static func guess(_ written: String, among known: some Sequence<String>) -> String? {
        let letters = Array(written.lowercased().utf8)
        var slipsMax = letters.count < 6 ? 1 : Self.slipsMax
        var guess: String?
        for name in known.sorted() {
            let other = Array(name.lowercased().utf8)
            guard abs(other.count - letters.count) <= slipsMax else { continue }
            let slips = slips(between: letters, and: other)
            guard slips <= slipsMax else { continue }
            guess = name
            guard slips > 0 else { break }
            slipsMax = slips - 1
        }
        return guess
    }

    /// Letters that are missing, too many, wrong, or swapped with their neighbour (Damerau-Levenshtein, each letter
    /// edited once).
    private static func slips(between left: [UInt8], and right: [UInt8]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for row in left.indices {
            var current = [row + 1]
            for column in right.indices {
                let isSame = left[row] == right[column]
                var slips = min(last[column + 1] + 1, current[column] + 1, last[column] + (isSame ? 0 : 1))
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    slips = min(slips, beforeLast[column - 1] + 1)
                }
                current.append(slips)
            }
            (beforeLast, last) = (last, current)
        }
        return last[right.count]
    }
}
