public import Commerce

/// What became of a ``StoreDuty``.
public enum DutyOutcome: Sendable, Equatable {
    /// The store knows, from this call or an earlier one.
    case done
    /// Not yet; try again after `after` (nil: after the usual backoff).
    case retry(after: Duration?, cause: IndeterminateCause)
    /// It can never be done: the store took the purchase back or no longer knows it.
    case impossible(RejectionReason)
}
