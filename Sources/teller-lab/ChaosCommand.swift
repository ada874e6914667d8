import Lab
import ServiceRuntime

let chaosCommand = Command(
    "chaos", "breaks everything around a whole Teller while receipts go through, and audits",
    details: """
        Starts a private Redis, both emulated stores, APIs and workers (the `teller` beside this program) on free ports,
        hands in receipts, and meanwhile kills and freezes processes, takes Redis away and brings it back, and lets the
        stores fail; the seed decides whom, when and how. Then everything is mended, the queues drain, and every wallet
        is audited. It also measures how soon a killed worker's receipts are back at work and how soon work resumes
        after Redis's return. Exit code 0: clean, and within the promised times; 1: not, and the logs stay.

          teller-lab chaos --receipts 100000 --apis 2 --workers 3 --redis-restarts 3 --seed 7 --json chaos.json
        """,
    options: [
        .init("receipts", "N", "handed in, of all kinds together (default 100000)"),
        .init("duplicates", "SHARE", "handed in again by the same player (default 0.10)"),
        .init("replays", "SHARE", "handed in by another player (default 0.05)"),
        .init("forged", "SHARE", "that no store stands behind (default 0.05)"),
        .init("apis", "N", "API processes (default 2)"),
        .init("workers", "N", "worker processes (default 3)"),
        .init("concurrency", "C", "clients at once (default 200)"),
        .init("kill-every", "SECONDS", "mean time between two blows at a process (default 3; 0: none)"),
        .init("redis-restarts", "N", "times that Redis goes away and comes back (default 3)"),
        .init("network", nil, "put a proxy in front of Redis that loses commands and replies (slower)"),
        .init("honest-stores", nil, "the stores do not fail"),
        .init("settle", "SECONDS", "how long the queues get to drain before the audit (default 120)"),
        .init("seed", "N", "decides everything that is decided by chance (default 1)"),
        .init("json", "FILE", "also writes the report as JSON"),
    ]
) { arguments in
    var plan = ChaosPlan()
    let share = 0.0...1.0
    plan.receipts = try arguments.integer("receipts", in: 1...10_000_000, default: plan.receipts)
    plan.mix.duplicates = try arguments.number("duplicates", in: share, default: plan.mix.duplicates)
    plan.mix.replays = try arguments.number("replays", in: share, default: plan.mix.replays)
    plan.mix.forged = try arguments.number("forged", in: share, default: plan.mix.forged)
    plan.apis = try arguments.integer("apis", in: 1...64, default: plan.apis)
    plan.workers = try arguments.integer("workers", in: 1...64, default: plan.workers)
    plan.concurrency = try arguments.integer("concurrency", in: 1...10_000, default: plan.concurrency)
    plan.strikeEvery = .seconds(try arguments.number("kill-every", in: 0...3600, default: plan.strikeEvery.inSeconds))
    plan.redisRestarts = try arguments.integer("redis-restarts", in: 0...1000, default: plan.redisRestarts)
    plan.networkFails = arguments.has("network")
    plan.storesFail = !arguments.has("honest-stores")
    plan.settle = .seconds(try arguments.number("settle", in: 0...86_400, default: plan.settle.inSeconds))
    plan.seed = UInt64(try arguments.integer("seed", in: 0...Int.max, default: 1))
    let line = ProgressLine()
    let report = try await ChaosRun.run(plan, log: { line.keep($0) }, progress: { line.show($0) })
    line.close()
    print(report.text)
    try LabOptions.writeJSON(arguments) { report.write(to: &$0) }
    return report.complaints.isEmpty ? 0 : 1
}
