public import Commerce

/// A stretch of a player's ledger, newest first.
public struct HistoryPage: Sendable, Equatable {
    /// One entry and where it stands.
    public struct Item: Sendable, Equatable {
        /// The entry's number from 1; never changes.
        public let position: Int64
        /// The entry; nil when this version cannot read it (a newer schema).
        public let entry: LedgerEntry?

        /// Makes an item.
        public init(position: Int64, entry: LedgerEntry?) {
            self.position = position
            self.entry = entry
        }
    }

    /// The entries, newest first.
    public let items: [Item]
    /// What to ask for next as `before`; nil when the page reaches the first entry.
    public let cursor: Int64?

    /// Makes a page.
    public init(items: [Item], cursor: Int64?) {
        self.items = items
        self.cursor = cursor
    }
}
