/// Who owns a purchase key.
public enum Claim: Sendable, Equatable {
    /// The player, since now or since earlier.
    ///
    /// Both mean the same: *go on*. A claim says nothing about whether the purchase was credited; a worker may have died
    /// between the two. Only the player's own mark says that.
    case mine
    /// Somebody else, for ever.
    case belongsToAnother
}
