/// Who is credited for purchases made with test money.
///
/// Verification says yes to them; this decides what follows.
public enum SandboxPolicy: Sendable, Equatable {
    /// No sandbox purchase is credited; right for production.
    case nobody
    /// Only these players: testers and Apple's reviewers.
    case listed(Set<PlayerID>)
    /// Everyone; for test set-ups only.
    case everybody

    /// Whether this player's sandbox purchases are credited.
    public func allows(_ player: PlayerID) -> Bool {
        switch self {
        case .nobody: false
        case .listed(let players): players.contains(player)
        case .everybody: true
        }
    }
}
