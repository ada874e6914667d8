/// When an unfinished receipt is looked at again, and for how long.
///
/// Full jitter (a delay anywhere between zero and the exponential bound): after an outage of a store thousands of
/// receipts come due, and equal delays would bring them back in waves.
public struct RetrySchedule: Sendable, Equatable {
    /// Bound of the first delay.
    public var first: Duration
    /// Bound of every later delay.
    public var longest: Duration
    /// After this long without an answer a receipt becomes a dead letter: it waits for a human, it is not refused.
    public var horizon: Duration
    /// Nor before so many attempts: one that lay on the list while no worker ran is old at its first.
    public var attemptsMin: Int
    /// From this age on every attempt without a result is counted in `teller_receipts_late_total`, which rings.
    public var alarmAge: Duration

    /// 1 s doubling to 15 min, for 72 h and at least 10 attempts (some ten minutes); an alarm after 24 h.
    public init(
        first: Duration = .seconds(1), longest: Duration = .seconds(900), horizon: Duration = .seconds(259_200),
        attemptsMin: Int = 10, alarmAge: Duration = .seconds(86_400)
    ) {
        self.first = first
        self.longest = longest
        self.horizon = horizon
        self.attemptsMin = attemptsMin
        self.alarmAge = alarmAge
    }

    /// The delay before attempt number `attempts` + 1.
    ///
    /// - Parameters:
    ///   - attempts: attempts made so far, at least 1.
    ///   - floor: what the store asked for (`Retry-After`); never undercut, and spread by a tenth on top.
    ///   - random: uniform in 0..<1.
    /// - Returns: The delay.
    public func delay(afterAttempts attempts: Int, atLeast floor: Duration?, random: Double) -> Duration {
        let doublings = min(max(attempts - 1, 0), 30)
        let bound = min(first * (1 << doublings), longest)
        let jittered = bound * random
        guard let floor else { return jittered }
        return max(floor + floor * (0.1 * random), jittered)
    }
}
