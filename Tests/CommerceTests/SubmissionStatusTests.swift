import Commerce
import Foundation
import ServiceRuntime
import TestSupport
import Testing

@Suite struct SubmissionStatusTests {
    static func statuses() throws -> [SubmissionStatus] {
        let player = try PlayerID(validating: "player-42")
        let product = try ProductID(validating: "gems_pack_medium")
        let credit = SubmissionStatus.Credit(
            transactionID: "2000000403755054", product: product,
            grants: Grants(currencies: [CurrencyAmount(.gems, 9_007_199_254_740_991)]), position: 3,
            wasAlreadyCredited: false)
        var repeated = credit
        repeated.wasAlreadyCredited = true
        repeated.grants.entitlements = [EntitlementID(owning: product)]
        return [
            SubmissionStatus(.pending, player: player),
            SubmissionStatus(.pending, player: player, retryAfterMilliseconds: 2_000),
            SubmissionStatus(.credited, player: player, credits: [credit]),
            SubmissionStatus(.credited, player: player, credits: [repeated, credit]),
            SubmissionStatus(.rejected, player: player, reason: .belongsToAnotherPlayer),
            SubmissionStatus(
                .rejected, player: player, reason: .productMismatch, credits: [repeated], isAllInWallet: true),
            SubmissionStatus(.awaitingPayment, player: player),
            SubmissionStatus(.dead, player: player),
            SubmissionStatus(
                .pending, player: player, retryAfterMilliseconds: 2_000, cause: .unknownProduct,
                awaitedProduct: "com.mygame.gems.500"),
        ]
    }

    @Test func readsBackWhatItWrote() throws {
        for status in try Self.statuses() {
            #expect(try SubmissionStatus(json: try JSONView.parse(status.json)) == status)
        }
    }

    /// The key is an interface: whoever pushes jobs without the API reads it with the README at hand.
    @Test func everyMemberAndStateIsInTheREADME() throws {
        let readme = try String(contentsOfFile: Repository.root + "/README.md", encoding: .utf8)
        var documented = 0
        func look(_ view: JSONView, _ prefix: String = "") throws {
            for member in try view.members() {
                #expect(readme.contains("| `\(prefix)\(member.key)` |"), "\(prefix)\(member.key)")
                documented += 1
            }
            for credit in try view.optionalElements("credits") ?? [] { try look(credit, "credits[].") }
        }
        for status in try Self.statuses() { try look(JSONView.parse(status.json)) }
        #expect(documented > 20)
        for state in SubmissionStatus.State.allCases { #expect(readme.contains("`\(state.rawValue)`")) }
        for cause in IndeterminateCause.allCases { #expect(readme.contains("| `\(cause.rawValue)` |"), "\(cause)") }
    }

    /// Scripts look at the first bytes to protect "credited" from being overwritten.
    @Test func stateComesFirst() throws {
        for status in try Self.statuses() {
            let text = String(decoding: status.json, as: UTF8.self)
            #expect(text.hasPrefix("{\"state\":\"\(status.state.rawValue)\","))
        }
    }

    /// An old front beside a new worker: what it does not understand, nobody may finish.
    @Test(arguments: [
        #"{"state":"rejected","userId":"ada","reason":"too-good-to-be-true"}"#,
        #"{"state":"under-review","userId":"ada"}"#,
        #"{"state":"under-review","userId":"ada","reason":"refunded","since":"yesterday"}"#,
        #"{"state":"under-review","userId":"ada","reason":"too-good-to-be-true","retryAfterMs":5000}"#,
    ])
    func whatANewerVersionWroteIsPending(json: String) throws {
        let status = try SubmissionStatus(json: try JSONView.parse(json))
        #expect(status.state == .pending && status.player.rawValue == "ada")
    }

    @Test(arguments: [
        #"{"userId":"ada"}"#, #"{"state":7,"userId":"ada"}"#, #"{"state":"rejected","userId":"ada","reason":7}"#,
        #"{"state":"credited"}"#, #"{"state":"credited","userId":"ada","credits":[{}]}"#,
    ])
    func whatNoVersionWroteIsRefused(json: String) {
        #expect(throws: JSONError.self) { try SubmissionStatus(json: try JSONView.parse(json)) }
    }

    @Test func isProcessedAlreadyOnlyWhenEverythingWas() throws {
        let statuses = try Self.statuses()
        #expect(!statuses[0].isAlreadyProcessed)
        #expect(!statuses[2].isAlreadyProcessed)
        #expect(!statuses[3].isAlreadyProcessed)
        var repeated = statuses[3]
        repeated.credits.removeLast()
        #expect(repeated.isAlreadyProcessed)
    }

    @Test func dutiesReadBack() throws {
        let duty = try #require(try Samples.promoPurchase().duty)
        #expect(try StoreDuty(json: try JSONView.parse(duty.json)) == duty)
        let damaged = String(decoding: duty.json, as: UTF8.self).replacing("google-acknowledge", with: "google-refund")
        #expect(throws: JSONError.self) { try StoreDuty(json: try JSONView.parse(damaged)) }
    }
}
