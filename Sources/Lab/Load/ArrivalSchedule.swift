import ServiceRuntime

/// When the receipts of an open loop are to be handed in: evenly spaced, decided beforehand, never moved.
///
/// A generator that waits for slow answers before it schedules the next request leaves out exactly the requests that
/// would have been slow. Here the n-th receipt has its time from the beginning, and its latency counts from then.
struct ArrivalSchedule: Sendable {
    let perSecond: Double

    /// When the receipt number `index`, from 0, is to be handed in, after the start.
    func time(of index: Int) -> Duration { .seconds(Double(index) / perSecond) }

    /// How many receipts' time has come.
    func due(after elapsed: Duration) -> Int {
        guard elapsed >= .zero else { return 0 }
        return Int((elapsed.inSeconds * perSecond).rounded(.down)) + 1
    }

    /// How many receipts fall into a run of this length.
    func count(within length: Duration) -> Int { max(1, Int((length.inSeconds * perSecond).rounded(.up))) }
}
