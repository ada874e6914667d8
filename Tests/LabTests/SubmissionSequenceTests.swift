import Commerce
import ServiceRuntime
import Signing
import Testing

@testable import Lab

@Suite struct SubmissionSequenceTests {
    private func plan(seed: UInt64 = 7, _ change: (inout LoadPlan) -> Void = { _ in }) throws -> LoadPlan {
        var plan = LoadPlan(
            target: .list, redis: LabRedis(url: "redis://127.0.0.1"), emulatorURL: "http://127.0.0.1",
            catalogue: try LabScene.catalogue())
        plan.seed = seed
        change(&plan)
        return plan
    }

    private func drafts(_ plan: LoadPlan, _ count: Int) throws -> [SubmissionDraft] {
        var sequence = try SubmissionSequence(plan)
        return (0..<count).map { _ in sequence.next() }
    }

    @Test func aSeedDecidesTheWholeSequence() throws {
        #expect(try drafts(plan(), 500) == drafts(plan(), 500))
        #expect(try drafts(plan(), 500) != drafts(plan(seed: 8), 500))
    }

    @Test func kindsComeInThePlannedShares() throws {
        let drafts = try drafts(plan { $0.mix.apple = 0.7 }, 40_000)
        var kinds: [String: Int] = [:]
        var apple = 0
        for draft in drafts {
            switch draft {
            case .duplicate: kinds["duplicate", default: 0] += 1
            case .replay(let thief, let other):
                kinds["replay", default: 0] += 1
                #expect(thief != other)
            case .order(let kind, let order, _):
                kinds[kind.rawValue, default: 0] += 1
                if kind == .purchase, order.store == "apple" { apple += 1 }
                if kind == .pending { #expect(order.store == "google" && order.isPending) }
                if kind == .forged { #expect(order.signer != nil || order.appID == "com.othergame") }
            }
        }
        for (kind, share) in [
            ("duplicate", 0.10), ("replay", 0.05), ("forged", 0.05), ("pending", 0.02), ("purchase", 0.78),
        ] {
            #expect(abs(Double(kinds[kind] ?? 0) / 40_000 - share) < 0.006, "\(kind): \(kinds[kind] ?? 0)")
        }
        #expect(abs(Double(apple) / Double(kinds["purchase"] ?? 1) - 0.7) < 0.02)
    }

    @Test func theFirstReceiptIsHonestAndBoundToItsBuyer() throws {
        for seed in 0..<50 {
            guard case .order(.purchase, let order, _) = try drafts(plan(seed: UInt64(seed)), 1)[0] else {
                Issue.record("seed \(seed) begins with something else")
                continue
            }
            #expect(order.accountToken == UUIDv5.make(namespace: AccountBinding.namespace, name: order.player))
        }
    }

    @Test func onlyWhatCanBeBoughtAgainIsBought() throws {
        for case .order(_, let order, _) in try drafts(plan(), 500) {
            #expect(!order.storeProductID.contains("skin"))
        }
    }

    @Test(
        arguments: [
            {
                $0.mix.duplicates = 0.9; $0.mix.forged = 0.1
            }, { $0.mix.apple = 1.5 }, { $0.mix.replays = -0.1 },
            { $0.players = 1 }, { $0.pace = .openLoop(perSecond: 0) }, { $0.pace = .closedLoop(concurrency: 0) },
            { $0.extent = .count(0) }, { $0.extent = .duration(.zero) }, { $0.target = .api(urls: [], key: "a.b") },
        ] as [@Sendable (inout LoadPlan) -> Void])
    func aPlanThatContradictsItselfIsRefused(_ change: @Sendable (inout LoadPlan) -> Void) throws {
        let plan = try plan(change)
        #expect(throws: LabError.self) { try plan.check() }
    }

    /// The generator names submissions by the documentation; Teller by its own code.
    @Test(arguments: ["apple", "google"]) func itsSubmissionIDsAreTellers(_ store: String) throws {
        let receipt = store == "apple" ? "eyJhbGciOiJFUzI1NiJ9.eyJhIjoxfQ.c2ln" : "abcdefghij.AO-J1Oy_token"
        let purchase = LoadPurchase(
            id: "1", kind: .purchase, store: store, player: "ada", productID: "gems_pack_medium", isBound: false,
            receipt: StoredReceipt(head: Array(receipt.utf8.prefix(9)), tail: Array(receipt.utf8.dropFirst(9))))
        let submission = Submission(kind: .replay, purchase: purchase, player: "eve")
        let read = try ReceiptSubmission(json: JSONView.parse(submission.body))
        #expect(read.player.rawValue == "eve" && read.store.rawValue == store && read.receipt.text == receipt)
        #expect(submission.id == SubmissionID(digest: Digest.sha256(read.canonicalBytes)).rawValue)
    }
}

@Suite struct ArrivalScheduleTests {
    @Test(arguments: [0.5, 3, 7, 999.7, 20_000]) func receiptsAreDueAtTheirTimesAndNotBefore(_ rate: Double) {
        let schedule = ArrivalSchedule(perSecond: rate)
        #expect(schedule.time(of: 0) == .zero)
        for index in [0, 1, 2, 10, 1000, 123_456] {
            let time = schedule.time(of: index)
            #expect(schedule.due(after: time + .microseconds(1)) == index + 1)
            if index > 0 { #expect(schedule.due(after: time - .microseconds(1)) == index) }
        }
        #expect(schedule.due(after: .milliseconds(-1)) == 0)
    }

    @Test func aDurationHoldsItsShareOfReceipts() {
        #expect(ArrivalSchedule(perSecond: 100).count(within: .seconds(2)) == 200)
        #expect(ArrivalSchedule(perSecond: 0.1).count(within: .seconds(1)) == 1)
    }
}

@Suite struct ProcessLookTests {
    /// `/proc/<pid>/stat` of a process that tries to be read wrongly.
    private let stat =
        "4711 (a) R 1 (x) S 1 4711 4711 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 987654 1000000 300 18446744073709551615"

    @Test func readsTimesAndMemoryBehindAnyName() throws {
        let look = try #require(ProcessLook(stat: stat, ticksPerSecond: 100, pageBytes: 4096))
        #expect(look.name == "a) R 1 (x")
        #expect(look.cpu == .seconds(3))
        #expect(look.startedAtTicks == 987_654)
        #expect(look.residentBytes == 300 * 4096)
    }

    @Test(arguments: ["", "12", "12 (a", "12 (a) S 1 2"]) func refusesWhatIsNoStat(_ text: String) {
        #expect(ProcessLook(stat: text) == nil)
    }

    @LoopActor @Test func aProcessThatIsNotThereIsReportedAsEnded() {
        let usages = ProcessWatch([Int32.max]).look()
        #expect(usages.map(\.hasEnded) == [true])
    }
}

@LoopActor @Suite struct ProgressLineTests {
    @Test func aTerminalSeesOneLineAndALogPlainLinesNowAndThen() {
        var terminal = ""
        let line = ProgressLine(isTerminal: true) { terminal += $0 }
        line.show("one")
        line.show("two")
        line.close()
        #expect(terminal == "\r\u{1B}[2Kone\r\u{1B}[2Ktwo\r\u{1B}[2K")
        var log = ""
        let plain = ProgressLine(isTerminal: false) { log += $0 }
        plain.show("one")
        plain.show("two")
        plain.close()
        #expect(log == "one\n")
    }
}
