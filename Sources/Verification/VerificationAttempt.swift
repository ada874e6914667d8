/// Which look at a receipt this is.
///
/// Verification keeps no memory of receipts between calls, so a restart loses nothing; the few rules that allow a
/// bounded number of looks (a token the store does not know yet) get the number from the job.
public struct VerificationAttempt: Sendable, Equatable {
    /// 1 for the first look.
    public var number: Int
    /// How long ago the receipt was first seen.
    public var age: Duration

    /// Makes an attempt.
    public init(number: Int, age: Duration) {
        self.number = number
        self.age = age
    }

    /// The first look at a receipt that just came in.
    public static let first = VerificationAttempt(number: 1, age: .zero)
}

extension VerificationLimits {
    /// Whether a store's "I do not know this purchase", or one that may be a temporary problem, is to be believed now.
    ///
    /// Both: enough looks, so that neither one bad minute of ours nor a clock that jumps can use up the time, and enough
    /// time, so that a burst of looks cannot use up the looks.
    func isNoForGood(_ attempt: VerificationAttempt) -> Bool {
        attempt.number >= unknownPurchaseLooks && attempt.age >= unknownPurchaseAge
    }

    /// When to look again, until then.
    func tooNewDelay(_ attempt: VerificationAttempt) -> Duration {
        min(tooNewDelay * max(1, min(attempt.number, 1000)), tooNewDelayMax)
    }
}
