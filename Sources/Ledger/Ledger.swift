// Ledger: all money state.
