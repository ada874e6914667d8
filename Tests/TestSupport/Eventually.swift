/// The condition was still false when its time was up.
public struct ConditionNeverHeld: Error, CustomStringConvertible {
    /// What the test waited for, and how long.
    public let description: String
}

/// Waits until `condition` holds, asking again every few milliseconds, and throws ``ConditionNeverHeld`` when it still
/// does not after `within`.
///
/// Tests wait with this and never with a fixed sleep: a sleep is too short on a slow machine and too long on every other.
public func eventually(
    within limit: Duration = .seconds(40), _ what: String = "condition",
    isolation: isolated (any Actor)? = #isolation, _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let end = clock.now + limit
    while true {
        if try await condition() { return }
        guard clock.now < end else { throw ConditionNeverHeld(description: "\(what): not within \(limit)") }
        try await Task.sleep(for: .milliseconds(5))
    }
}
