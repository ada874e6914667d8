import ServiceRuntime
import StoreEmulator

let emulatorCommand = Command(
    "emulator", "plays the App Store and Google Play on loopback",
    details: """
        Sells, signs with a root of its own (fresh for each run), answers both stores' APIs, misbehaves on command and
        keeps the truth about who bought what. Everything is in memory. Its control API, with curl:

          POST   /control/purchases      {"store":"apple","player":"ada","productId":"com.mygame.gems.500"} → receipt
          PUT    /control/faults         {"store":"google","status":503} or {"store":"apple","latencyMs":200}
          DELETE /control/faults         everybody behaves again
          GET    /control/ground-truth   who bought what, and whether it must be credited
          GET    /control/stats          requests seen by each endpoint

        With --directory it writes the keys and stores.json, which is the apple and google part of a configuration for
        `teller`. SIGTERM stops it.

          teller-lab emulator --port 8099 --directory stores
        """,
    options: [
        .init("port", "N", "where to listen on 127.0.0.1 (default 0: a free port)"),
        .init("directory", "DIR", "writes apple.p8, google.json and stores.json there; made if need be"),
        .init("seed", "N", "decides which requests the fault knobs hit (default 1)"),
    ]
) { arguments in
    var configuration = StoreEmulator.Configuration()
    configuration.port = try arguments.integer("port", in: 0...65_535, default: 0)
    configuration.seed = UInt64(try arguments.integer("seed", in: 0...Int.max, default: 1))
    let directory = arguments.string("directory")
    let sink = LogSink()
    let logger = Logger(label: "emulator", sink: sink)
    let shutdown = Shutdown.onSignals()
    let emulator = try StoreEmulator(configuration, logger: logger)
    let group = ServiceGroup(logger: logger, stopWithin: .seconds(5))
    group.add(
        "emulator",
        start: {
            try emulator.start()
            if let directory { try emulator.writeStores(into: directory) }
            logger.notice("stores are open", ["url": .string(emulator.baseURL)])
        }, stop: { _ in await emulator.stop() })
    let code = await group.run(until: shutdown)
    sink.flush()
    return code
}
