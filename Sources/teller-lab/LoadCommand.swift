import Lab
import ServiceRuntime

let loadCommand = Command(
    "load", "buys at the emulator, hands the receipts in, measures, and audits",
    details: """
        Open loop (--rate) keeps to its schedule whatever the answers do, and latency counts from the scheduled time.
        Closed loop (--concurrency) hands in the next receipt when the last one is answered. The purchases are made before
        the clock starts. Afterwards every wallet, and what Google was told, is held against what the stores sold. Exit
        code 0: every answer and every wallet is right; 1: not.

          teller-lab load --api http://127.0.0.1:8080 --key demo.SECRET --redis redis://127.0.0.1:6379 \\
              --emulator http://127.0.0.1:8099 --count 100000 --concurrency 256 --watch-pid $(pidof -s teller)
          teller-lab load --redis redis://127.0.0.1:6379 --emulator http://127.0.0.1:8099 --rate 5000 --duration 60

        Without --api the receipts are pushed onto the lists. A Redis that is marked as production is refused.
        """,
    options: LabOptions.shared + [
        .init("api", "URL", "hand in through this API; may be given again, requests then go round", isRepeatable: true),
        .init("key", "ID.SECRET", "API key with the scope submit"),
        .init("key-file", "FILE", "reads the key from a file"),
        .init("rate", "R", "open loop: receipts a second"),
        .init("concurrency", "C", "closed loop: clients at once (default 64)"),
        .init("count", "N", "receipts to hand in, of all kinds together (default 10000)"),
        .init("duration", "SECONDS", "instead of a count: how long to hand in"),
        .init("duplicates", "SHARE", "handed in again by the same player (default 0.10)"),
        .init("replays", "SHARE", "handed in by another player (default 0.05)"),
        .init("forged", "SHARE", "that no store stands behind (default 0.05)"),
        .init("pending", "SHARE", "Google purchases that are not paid (default 0.02)"),
        .init("apple", "SHARE", "of the purchases at Apple, the others at Google (default 0.5)"),
        .init("players", "N", "who buy (default 1000)"),
        .init("seed", "N", "decides kinds, stores, products and players (default 1)"),
        .init("wait", "SECONDS", "Prefer: wait of each request (default 10)"),
        .init("patience", "SECONDS", "how long a client goes on with one receipt (default 120)"),
        .init("stock", "N", "closed loop with a duration: bought before the clock starts (default 20000)"),
        .init("no-wait", nil, "list: push only, do not wait for the status of each receipt"),
        .init("no-audit", nil, "do not audit afterwards"),
        .init("watch-pid", "PID", "report CPU and memory of this process; may be given again", isRepeatable: true),
    ]
) { arguments in
    let plan = try LoadOptions.plan(arguments)
    let line = ProgressLine()
    let generator = try LoadGenerator(plan) { line.show($0) }
    let interrupt = Shutdown.onSignals()
    let watcher = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
        await interrupt.wait()
        if interrupt.isRequested { generator.stop() }
    }
    let load = try await generator.run()
    watcher.cancel()
    line.close()
    print(load.text)
    var audit: AuditReport?
    if !arguments.has("no-audit") {
        var configuration = try LabOptions.audit(arguments)
        configuration.heard = load.heard
        audit = try await Audit.run(configuration) { line.show($0) }
        line.close()
    }
    if let audit { print(audit.text) }
    try LabOptions.writeJSON(arguments, load: load, audit: audit)
    return load.isClean && audit?.isClean ?? true ? 0 : 1
}

/// Reads the options of `load`.
private enum LoadOptions {
    static func plan(_ arguments: Arguments) throws -> LoadPlan {
        var plan = LoadPlan(
            target: try target(arguments), redis: try LabOptions.redis(arguments),
            emulatorURL: try LabOptions.emulator(arguments), catalogue: try LabOptions.catalogue(arguments))
        if arguments.string("rate") != nil {
            guard arguments.string("concurrency") == nil else { throw UsageError("--rate excludes --concurrency") }
            plan.pace = .openLoop(perSecond: try arguments.number("rate", in: 0.001...1_000_000, default: 1))
        } else {
            plan.pace = .closedLoop(
                concurrency: try arguments.integer("concurrency", in: 1...100_000, default: 64))
        }
        if arguments.string("duration") != nil {
            guard arguments.string("count") == nil else { throw UsageError("--duration excludes --count") }
            plan.extent = .duration(.seconds(try arguments.number("duration", in: 0.1...86_400, default: 1)))
        } else {
            plan.extent = .count(try arguments.integer("count", in: 1...5_000_000, default: 10_000))
        }
        let share = 0.0...1.0
        plan.mix.duplicates = try arguments.number("duplicates", in: share, default: plan.mix.duplicates)
        plan.mix.replays = try arguments.number("replays", in: share, default: plan.mix.replays)
        plan.mix.forged = try arguments.number("forged", in: share, default: plan.mix.forged)
        plan.mix.pending = try arguments.number("pending", in: share, default: plan.mix.pending)
        plan.mix.apple = try arguments.number("apple", in: share, default: plan.mix.apple)
        plan.players = try arguments.integer("players", in: 2...10_000_000, default: plan.players)
        plan.seed = UInt64(try arguments.integer("seed", in: 0...Int.max, default: 1))
        plan.waitSeconds = try arguments.integer("wait", in: 0...30, default: plan.waitSeconds)
        plan.patience = .seconds(try arguments.number("patience", in: 0...86_400, default: plan.patience.inSeconds))
        plan.stockSize = try arguments.integer("stock", in: 1...5_000_000, default: plan.stockSize)
        plan.waitsForAnswers = !arguments.has("no-wait")
        plan.watchedProcesses = try arguments.strings("watch-pid").map { text in
            guard let pid = Int32(text), pid > 0 else { throw UsageError("--watch-pid: must be a process id") }
            return pid
        }
        return plan
    }

    private static func target(_ arguments: Arguments) throws -> LoadPlan.Target {
        let urls = arguments.strings("api")
        guard !urls.isEmpty else { return .list }
        if let key = arguments.string("key") { return .api(urls: urls, key: key) }
        guard let file = arguments.string("key-file") else {
            throw UsageError("--api needs --key ID.SECRET or --key-file FILE")
        }
        return .api(urls: urls, key: try LabOptions.secret(inFile: file))
    }
}
