import ServiceRuntime
import StoreEmulator

let emulatorCommand = Command(
    "emulator", "plays the App Store and Google Play on loopback",
    details: """
        Sells, signs with a root of its own (fresh for each run), answers both stores' APIs, misbehaves on command and
        keeps the truth about who bought what. Everything is in memory. Its control API, with curl:

          POST   /control/purchases      {"store":"apple","player":"ada","productId":"com.mygame.gems.500"} → receipt;
                                         several: {"purchases":[…]}
          GET    /control/purchases/STORE/ID        as the store sees it; ID: transaction id or purchase token
          POST   /control/purchases/STORE/ID/state  {"state":"purchased"}, "cancelled" or "refunded"
          POST   /control/receipts       {"transactions":["ID",…]} → a legacy app receipt over Apple's transactions
          GET    /control/ground-truth   who bought what, and whether it must be credited; ?offset=&limit=
          PUT    /control/faults         {"store":"google","status":503} or {"store":"apple","latencyMs":200}
          DELETE /control/faults         everybody behaves again
          GET    /control/stats          requests seen by each endpoint: its names
          POST   /control/leaf           a new certificate signs Apple's receipts
          POST   /control/expire-tokens  ends Google's access tokens
          GET    /control/stores         the part of a configuration that fits this emulator
          POST   /control/reset          forgets everything but the keys

        A purchase may also say (what it does not is usual; there is no accountToken then):

          quantity       1…1000000
          accountToken   appAccountToken or obfuscatedExternalAccountId
          state          \(PurchaseState.choices); Google: pending is paid by setting purchased
          type           Consumable, Non-Consumable, …: Apple's word
          unknownReads   reads that are answered "not found" before the store knows it
          purchasedAt    milliseconds since 1970
          appId          another app's bundle id or package name
          environment    Apple: \(EmulatedEnvironment.choices)
          ownership      Apple: PURCHASED, FAMILY_SHARED, ASSIGNED
          originalTransactionId   Apple: it restores that one
          signer         Apple: \(ReceiptSigner.choices)
          isTest, isPromo         Google: true for a licence tester's, for a promo code's
          priceMilliunits, currency, storefront

        Faults are for a "store" or an "endpoint" (google.get; a prefix counts), with latencyMs, jitterMs and either one
        fault or "faults":[…]. A fault is a kind, with share (0…1), count (requests at most) and afterEffect (the store
        does its work, the answer is lost):

          status with status 200…599; apple-error with code; receipt-status with code and retryable;
          throttled with retryAfterMs; unauthorized-text, bad-gateway-page, not-json, truncated, reset, close, hang

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

extension CaseIterable where Self: RawRepresentable<String> {
    /// What the control API takes for it.
    fileprivate static var choices: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
