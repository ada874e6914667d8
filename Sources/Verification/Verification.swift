// Verification: Apple and Google: wire types, API clients, verdicts.
