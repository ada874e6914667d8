import HTTP
import ServiceRuntime
import Testing

@testable import Lab

@LoopActor @Suite struct APITargetTests {
    private nonisolated static let rows: [(HTTPAnswer, APITarget.Meaning)] = [
        (answer(200, #"{"status":"credited","alreadyProcessed":false}"#), .final(.credited(alreadyProcessed: false))),
        (answer(200, #"{"status":"credited","alreadyProcessed":true}"#), .final(.credited(alreadyProcessed: true))),
        (answer(202, #"{"status":"pending","retryAfterMs":2500}"#), .accepted(retryAfter: .milliseconds(2500))),
        (answer(202, #"{"status":"awaiting-payment"}"#), .final(.awaitingPayment)),
        (
            answer(409, #"{"reason":"belongs-to-another-player"}"#),
            .final(.refused(reason: "belongs-to-another-player"))
        ),
        (answer(422, #"{"reason":"invalid-signature"}"#), .final(.refused(reason: "invalid-signature"))),
        (answer(404, "<html>"), .final(.refused(reason: "HTTP 404"))),
        (answer(503, #"{"reason":"parked"}"#), .final(.parked)),
        (answer(503, "{}"), .refusedForNow(status: 503, retryAfter: nil)),
        (answer(429, "{}", [("Retry-After", "2")]), .refusedForNow(status: 429, retryAfter: .seconds(2))),
        (answer(502, "<html>"), .refusedForNow(status: 502, retryAfter: nil)),
        // Whatever else calls itself a success is not believed.
        (answer(200, "{}"), .final(.refused(reason: "HTTP 200"))),
    ]

    private nonisolated static func answer(
        _ status: Int, _ body: String, _ headers: [(String, String)] = []
    ) -> HTTPAnswer { HTTPAnswer(status: status, headers: headers, body: Array(body.utf8)) }

    @Test func answersMeanWhatTheAPIDocuments() {
        for (answer, meaning) in Self.rows { #expect(APITarget.meaning(of: answer) == meaning) }
    }

    @Test func aClientGoesOnUntilTheAnswerIsFinal() async throws {
        let replies: [OutgoingResponse] = [
            .text(503, "no"), .json(202, Array(#"{"status":"pending","retryAfterMs":1}"#.utf8)), .text(500, "no"),
            .json(200, Array(#"{"status":"credited","alreadyProcessed":false}"#.utf8)),
        ]
        var seen: [[UInt8]] = []
        try await FakeFront.running { request in
            seen.append(request.body)
            return replies[seen.count - 1]
        } body: { url in
            let (answer, notes) = try await deliver(to: ["http://127.0.0.1:1", url], patience: .seconds(20))
            #expect(answer == .credited(alreadyProcessed: false))
            #expect(Set(seen).count == 1 && seen.count == 4)
            #expect(notes.retries == ["connect": 1, "HTTP 503": 1, "pending": 1, "HTTP 500": 1])
            #expect(notes.attempts == 5)
        }
    }

    @Test func aClientGivesUpWhenItsPatienceEnds() async throws {
        try await FakeFront.running { _ in
            .json(202, Array(#"{"status":"pending","retryAfterMs":1}"#.utf8))
        } body: { url in
            let (answer, _) = try await deliver(to: [url], patience: .milliseconds(100))
            #expect(answer == .gaveUp(last: "pending", wasAccepted: true))
        }
    }

    private func deliver(
        to urls: [String], patience: Duration
    ) async throws -> (FinalAnswer, DeliveryNotes) {
        let plan = LoadPlan(
            target: .api(urls: urls, key: "lab.secret"), redis: LabRedis(url: "redis://127.0.0.1"),
            emulatorURL: "http://127.0.0.1", catalogue: try LabScene.catalogue())
        let target = APITarget(urls: urls, key: "lab.secret", plan: plan)
        let purchase = LoadPurchase(
            id: "1", kind: .purchase, store: "google", player: "ada", productID: "gems_pack_medium", isBound: true,
            receipt: StoredReceipt(head: [], tail: Array("token".utf8)))
        let notes = DeliveryNotes()
        let answer = await target.deliver(
            Submission(kind: .purchase, purchase: purchase, player: "ada"), until: .now + patience, notes: notes)
        await target.stop()
        return (answer, notes)
    }
}
