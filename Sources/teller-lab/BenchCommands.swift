import Foundation
import Lab
import ServiceRuntime

let workerBenchCommand = Command(
    "bench worker", "measures how fast a worker credits what lies waiting for it",
    details: """
        Buys at the emulator, warms the worker up, pushes the receipts onto a list of its own and puts that in the place
        of the pending list with one RENAME. The clock stops with the last credit. CPU is per receipt; "lab" is this
        command. scripts/bench starts everything around it. Without --emulator Google's purchase tokens are made up, for
        a worker that asks another store, which must call all of them good.

          teller-lab bench worker --redis redis://127.0.0.1:6379 --emulator http://127.0.0.1:8099 --store google \\
              --latency 50 --process worker=4711 --process redis=4712
        """,
    options: LabOptions.places + [
        .init("store", "NAME", "apple or google (default google)"),
        .init("latency", "MS", "how late the emulator's answers are (default 0); of another store, for the report"),
        .init("count", "N", "receipts under the clock (default 20000)"),
        .init("limit", "SECONDS", "ends with what is credited by then (default 30)"),
        .init("process", "NAME=PID", "report CPU and memory of this process; may be given again", isRepeatable: true),
        .init("census", nil, "also weigh every key before and after: bytes per purchase"),
    ]
) { arguments in
    let store = arguments.string("store") ?? "google"
    guard ["apple", "google"].contains(store) else { throw UsageError("--store: must be apple or google") }
    var configuration = WorkerBench.Configuration(
        redis: try LabOptions.redis(arguments), catalogue: try LabOptions.catalogue(arguments), store: store,
        emulatorURL: arguments.string("emulator"))
    configuration.latency = .milliseconds(try arguments.integer("latency", in: 0...60_000, default: 0))
    configuration.count = try arguments.integer("count", in: 1...2_000_000, default: configuration.count)
    configuration.limit = .seconds(try arguments.number("limit", in: 1...3600, default: 30))
    configuration.takesCensus = arguments.has("census")
    configuration.processes = try arguments.strings("process").map { text in
        let parts = text.split(separator: "=")
        guard parts.count == 2, let pid = Int32(parts[1]), pid > 0 else {
            throw UsageError("--process: must be NAME=PID")
        }
        return (String(parts[0]), pid)
    }
    let line = ProgressLine()
    let report = try await WorkerBench.run(configuration) { line.show($0) }
    line.close()
    print(report.text)
    try LabOptions.writeJSON(arguments) { report.write(to: &$0) }
    return report.isComplete ? 0 : 1
}

let signatureBenchCommand = Command(
    "bench jws", "measures how many of Apple's signed transactions one processor verifies",
    details: """
        With the certificate chain cached, as in a worker. To be held against: openssl speed ecdsap256

          teller-lab bench jws --seconds 3
        """,
    options: [
        .init("seconds", "S", "processor time to spend (default 3)"),
        .init("json", "FILE", "also writes the result as JSON"),
    ]
) { arguments in
    let result = try SignatureBench.run(for: try arguments.number("seconds", in: 0.1...600, default: 3))
    print(result.text)
    try LabOptions.writeJSON(arguments) { result.write(to: &$0) }
    return 0
}
