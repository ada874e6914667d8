import Jobs
import Redis
import ServiceRuntime

let initCommand = Command(
    "init", "prepares an empty Redis for Teller",
    details: """
        Writes the meta hash: a random incarnation id, the number of claim buckets, the schema version and whether this
        is production. All of Teller refuses to work on a Redis without it, so that a wiped Redis cannot credit every
        purchase a second time. Never overwrites: run it once for each new data set, and again as often as you like. Exit
        code 1: there are data, and they are not what --production or --buckets asks for; it says what to do.
        """,
    options: Foundations.options + [
        .init("production", nil, "mark as production: load tests refuse to run against it"),
        .init(
            "buckets", "N",
            "claim buckets, fixed for life (default 65536: compact up to some 30 million purchases)"),
    ]
) { arguments in
    let buckets = try arguments.integer("buckets", in: 1...16_777_216, default: Meta.bucketsDefault)
    let foundations = try Foundations(arguments, label: "init", logLevel: .error)
    try await foundations.waitForRedis(within: Foundations.patience)
    let outcome: Meta.Initialisation
    do {
        outcome = try await Meta.initialise(
            foundations.redis, buckets: buckets, isProduction: arguments.has("production"))
    } catch {
        throw foundations.explained(error)
    }
    print(outcome)
    await foundations.redis.stop()
    guard case .alreadyThere(let meta) = outcome else { return 0 }
    let differences = meta.differences(
        fromBuckets: arguments.string("buckets") == nil ? nil : buckets, isProduction: arguments.has("production"))
    for line in differences { print(line) }
    return differences.isEmpty ? 0 : 1
}
