import Commerce
import Foundation
import TestSupport
import Testing

@testable import ShopAPI

/// The table reason → status → action is the API's contract.
@Suite struct ReasonTests {
    static let own: [Reason] = [
        .malformedRequest, .unauthenticated, .forbidden, .unknownSubmission, .bodyTooLarge, .unsupportedMediaType,
        .unknownProduct, .productNotInStore, .tooManyRequests, .queueFull, .temporarilyUnavailable, .parked,
        .notFound, .methodNotAllowed, .stopping,
    ]
    static let all = own + RejectionReason.allCases.map { Reason.rejected($0) }

    @Test func everyReasonHasItsOwnSlug() {
        #expect(Set(Self.all.map(\.row.slug)).count == Self.all.count)
        for reason in RejectionReason.allCases { #expect(Reason.rejected(reason).row.slug == reason.rawValue) }
    }

    @Test(arguments: all) func rowIsWellFormed(reason: Reason) {
        let row = reason.row
        #expect(row.slug.allSatisfy { $0.isLowercase || $0 == "-" } && !row.slug.isEmpty)
        #expect((400...599).contains(row.status))
        #expect(!row.title.isEmpty && !row.title.hasSuffix("."))
    }

    /// Each row of the README's table is `| status | action | reasons |`, and each reason is in the row that is its own.
    @Test func everyReasonIsInTheREADME() throws {
        let readme = try String(contentsOfFile: Repository.root + "/README.md", encoding: .utf8)
        let table = readme.split(separator: "\n").drop { $0 != "| status | `clientAction` | reasons |" }
            .dropFirst(2).prefix { $0.hasPrefix("|") }
        for reason in Self.all {
            let row = reason.row
            let named = table.filter { $0.contains("`\(row.slug)`") }
            #expect(named.count == 1, "\(row.slug)")
            #expect(named.allSatisfy { $0.hasPrefix("| \(row.status) | `\(row.action.rawValue)` |") }, "\(row.slug)")
        }
        // Two marks around each name, and around each row's action.
        let marks = table.joined().count { $0 == "`" }
        #expect(marks == 2 * (Self.all.count + table.count))
    }

    /// A client that finishes gives up its proof: only where the store itself took the money back.
    @Test func onlyWhatIsOverAtTheStoreMayBeFinishedWithoutACredit() {
        let finished = Self.all.filter { $0.row.action == .finish }
        #expect(finished == [.rejected(.refunded), .rejected(.cancelled), .rejected(.purchaseExpired)])
    }

    @Test func creditChangesTheActionOfAMismatchOnly() {
        for reason in Self.all {
            #expect(reason.action(isAllInWallet: false) == reason.row.action)
            let isMismatch = reason == .rejected(.productMismatch)
            #expect(reason.action(isAllInWallet: true) == (isMismatch ? .finish : reason.row.action))
        }
    }

    @Test func whatMayPassByItselfIsToBeRetriedOrKept() {
        for reason in Self.all where reason.row.status >= 500 && reason != .parked {
            #expect(reason.row.action == .retry)
        }
        for reason in Self.all where reason.row.status < 422 && reason.row.status != 409 {
            #expect([.keep, .retry].contains(reason.row.action))
        }
    }
}
