// Commerce: what is bought, by whom, and what it gives, as pure values.
//
// No type here reads a clock, a socket or a file, so every rule about money (what a product grants, how often a
// purchase may be credited, what an entry of the ledger says) can be tested as a table. Trust is a type: a
// `ReceiptSubmission` is what a client claims; a `VerifiedPurchase` is what a store confirmed, and only the module
// `Verification` can make one. Nothing here survives a crash by itself: `Jobs` and `Ledger` write the text forms of
// these values (`ReceiptSubmission.jobJSON`, `SubmissionStatus.json`, `LedgerEntry.openJSON`) into Redis.
