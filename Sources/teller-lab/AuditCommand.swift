import Lab
import ServiceRuntime

let auditCommand = Command(
    "audit", "holds every wallet against what the emulated stores sold",
    details: """
        Waits until the lists are empty, then reads every wallet and ledger straight from Redis: every purchase that must
        be credited is there once, at its buyer, with the amount of the catalogue; forged, unpaid and replayed ones are
        not; balances are the sums of their ledgers; marks and claims fit; Google was told of each credit, by consuming
        or acknowledging it, and of nothing else; no job is left anywhere. Dead letters are listed. It demands a credit
        for every good purchase the emulator ever sold, whether or not it was handed in. Exit code 0: all of it holds; 1:
        not.

          teller-lab audit --redis redis://127.0.0.1:6379 --emulator http://127.0.0.1:8099 --settle 60
        """,
    options: LabOptions.shared
) { arguments in
    let line = ProgressLine()
    let audit = try await Audit.run(try LabOptions.audit(arguments)) { line.show($0) }
    line.close()
    print(audit.text)
    try LabOptions.writeJSON(arguments, load: nil, audit: audit)
    return audit.isClean ? 0 : 1
}
