import Lab
import ServiceRuntime
import StoreEmulator
import TestSupport
import Testing

/// Every command and store call in the life of a receipt, lost on the way there and lost on the way back.
///
/// Goal: whichever single message is lost, the purchase is credited once. Method: one harness with a proxy before Redis;
/// each case arms one loss, buys once, insists until it is credited, and sees that the loss took place.
extension RealProcessTests {
    static let lease = "script meta,workers,running,retry,arrived,pending,suspects,wards,pulse"

    /// What happens to one receipt, as a proxy sees it (``RedisProxy/seen``); where it takes another loss to get there,
    /// that one first.
    static let commands: [(after: String?, command: String)] = [
        (nil, "script meta,status,pending"), (nil, "GET status"), (nil, "BLMOVE pending"), (nil, lease),
        (lease, "HKEYS running"), (lease, "HMGET running"), (nil, "HSETNX claims"), ("HSETNX claims", "HGET claims"),
        (nil, "script meta,player,ledger,entitlements"), (nil, "script meta,running,status"),
        (nil, "script meta,running,pulse,retry,status"), (nil, "script meta,player,entitlements"),
        (nil, "script meta,workers,running,pulse"), (nil, "script meta,workers,dead,pulse"),
    ]

    /// What a worker sends before there is anything to take.
    private static let waiting = ["BLMOVE pending", lease]

    static let storeCalls: [StoreEndpointName] = [.appleTransaction, .googleToken, .googleGet, .googleConsume]

    @Test @LoopActor func aLostCommandOrReplyNeitherLosesNorDoublesACredit() async throws {
        var configuration = FaultHarness.Configuration()
        configuration.usesProxy = true
        try await FaultHarness.running(configuration) { harness in
            let proxy = try #require(harness.proxy)
            // Scripts are loaded, tokens fetched: from here on each command is the real thing.
            for store in EmulatedStore.allCases { try await Customer(harness, at: store).insist() }
            for (first, command) in Self.commands {
                for moment in RedisProxy.Moment.allCases {
                    for store in EmulatedStore.allCases {
                        try await lose(first.map { ($0, .afterItWasApplied) }, (command, moment), store, harness, proxy)
                    }
                }
            }
            try await harness.expectCleanAudit()
        }
    }

    private typealias Loss = (command: String, moment: RedisProxy.Moment)

    @LoopActor
    private func lose(
        _ first: Loss?, _ loss: Loss, _ store: EmulatedStore, _ harness: FaultHarness, _ proxy: RedisProxy
    ) async throws {
        let what = "\(store.rawValue): \(loss.command) lost \(loss.moment.rawValue)"
        // When the wait ended just before the push, the first loss hits an empty answer, and nothing follows from it.
        for _ in 0..<(first == nil ? 1 : 10) {
            if loss.command == "script meta,running,pulse,retry,status" {
                // It takes a store that fails once to see a retry.
                harness.emulator.setFaults(
                    FaultKnobs(faults: [StoreFault(.status(503), count: 1)]), for: store.rawValue)
            }
            proxy.cutNothing()
            let losses = [first, loss].compactMap { $0 }
            let cuts = proxy.cuts + losses.count
            for (command, moment) in losses {
                guard moment == .afterItWasApplied, Self.waiting.contains(command) else {
                    proxy.cut(command, moment)
                    continue
                }
                // The one that will take this receipt is under way, waiting for the push.
                try await eventually("a worker waits") {
                    proxy.cutWaiting(command, onList: "teller:{0}:pending:\(store.rawValue)")
                }
            }
            let customer = try Customer(harness, at: store)
            try await customer.insist()
            try? await eventually(within: .seconds(first == nil ? 30 : 2)) { proxy.cuts >= cuts }
            #expect(try await customer.balance() == Customer.gems, "\(what)")
            harness.emulator.setFaults(FaultKnobs(), for: "*")
            if proxy.cuts >= cuts { return }
        }
        throw UnexpectedAnswer(status: proxy.cutsToCome, body: "\(what): was not seen \(proxy.seen)")
    }

    @Test @LoopActor func aLostStoreCallOrAnswerNeitherLosesNorDoublesACredit() async throws {
        try await FaultHarness.running { harness in
            for endpoint in Self.storeCalls {
                // The answer of consume has no body that could be cut short.
                let truncated: [StoreFault.Kind] = endpoint == .googleConsume ? [] : [.truncated]
                for kind in [.reset, .close, .status(503)] + truncated {
                    for happensAfterEffect in [false, true] {
                        if endpoint == .googleToken { harness.emulator.expireAccessTokens() }
                        let seen = harness.emulator.requests(to: endpoint)
                        let fault = StoreFault(kind, count: 1, happensAfterEffect: happensAfterEffect)
                        harness.emulator.setFaults(FaultKnobs(faults: [fault]), for: endpoint.rawValue)
                        let customer = try Customer(harness, at: endpoint == .appleTransaction ? .apple : .google)
                        try await customer.insist()
                        #expect(try await customer.balance() == Customer.gems, "\(endpoint.rawValue) \(fault)")
                        try await eventually("\(endpoint.rawValue) is asked again after \(fault)") {
                            harness.emulator.requests(to: endpoint) >= seen + 2
                        }
                    }
                }
            }
            try await eventually(within: .seconds(60), "everything is consumed at Google") {
                harness.emulator.groundTruth.allSatisfy { $0.store == .apple || $0.isConsumed }
            }
            try await harness.expectCleanAudit()
        }
    }
}
