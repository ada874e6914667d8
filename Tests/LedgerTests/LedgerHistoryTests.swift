import Commerce
import Ledger
import Redis
import ServiceRuntime
import Testing

@Suite struct LedgerHistoryTests {
    typealias Fixture = LedgerFixture

    private static let empty = HistoryPage(items: [], cursor: nil)

    @Test func pagesStayStableWhileEntriesAreAppended() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            for id in 1...105 { _ = try await fixture.finish(try Fixture.purchase("\(id)"), player) }
            var cursor: Int64?
            var seen: [Int64] = []
            var next = 106
            repeat {
                let page = try await fixture.ledger.history(of: player, limit: 10, before: cursor)
                seen += page.items.map(\.position)
                #expect(page.items.allSatisfy { $0.entry?.transactionID?.rawValue == "\($0.position)" })
                cursor = page.cursor
                for _ in 1...3 {
                    _ = try await fixture.finish(try Fixture.purchase("\(next)"), player)
                    next += 1
                }
            } while cursor != nil
            #expect(seen == Array((1...105).reversed()))
            #expect(try await fixture.ledger.history(of: player, limit: 1).items.map(\.position) == [Int64(next - 1)])
        }
    }

    @Test func limitsAndCursorsOutOfRangeAreTame() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            #expect(try await fixture.ledger.history(of: player) == Self.empty)
            for id in 1...103 { _ = try await fixture.finish(try Fixture.purchase("\(id)"), player) }
            func positions(_ limit: Int, _ before: Int64?) async throws -> [Int64] {
                try await fixture.ledger.history(of: player, limit: limit, before: before).items.map(\.position)
            }
            #expect(try await positions(0, nil) == [103])
            #expect(try await positions(-5, nil) == [103])
            #expect(try await positions(1_000_000, nil) == Array((4...103).reversed()))
            #expect(try await positions(2, .max) == [103, 102])
            #expect(try await positions(2, 104) == [103, 102])
            #expect(try await positions(2, 2) == [1])
            for before in [1, 0, -1, .min] as [Int64] {
                #expect(try await fixture.ledger.history(of: player, before: before) == Self.empty)
            }
            #expect(try await fixture.ledger.history(of: player, limit: 3, before: 4).cursor == nil)
            #expect(try await fixture.ledger.history(of: player, limit: 2, before: 4).cursor == 2)
        }
    }

    @Test func anEntryOfALaterVersionKeepsItsPlace() async throws {
        try await Fixture.running { fixture in
            let player = try Fixture.player()
            _ = try await fixture.finish(try Fixture.purchase("1"), player)
            _ = try await fixture.send("RPUSH", "teller:{0}:ledger:player-42", #"{"v":2,"kind":"gift"}"#)
            _ = try await fixture.finish(try Fixture.purchase("3"), player)
            let items = try await fixture.ledger.history(of: player).items
            #expect(items.map(\.position) == [3, 2, 1])
            #expect(items.map { $0.entry != nil } == [true, false, true])
        }
    }
}
