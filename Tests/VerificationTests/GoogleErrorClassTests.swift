import Commerce
import HTTP
import Testing

@testable import Verification

/// Goal: no answer of Google's can turn a good purchase into a refusal unless it speaks about the purchase.
///
/// Method: every row of Google's error table, then the same statuses without Google's error object.
@Suite struct GoogleErrorClassTests {
    static let rows: [(Int, String, GoogleErrorClass)] = [
        (400, "invalid", .final(.malformedReceipt)), (400, "productNotOwnedByUser", .lookAgain),
        (400, "purchaseTokenMismatch", .final(.productMismatch)),
        (400, "purchaseTokenDoesNotMatchProductId", .final(.productMismatch)),
        (400, "purchaseTokenDoesNotMatchPackageName", .final(.wrongApp)),
        (400, "somethingNew", .ourConfiguration), (400, "", .ourConfiguration),
        (401, "authError", .renewAccessToken), (401, "", .renewAccessToken),
        (401, "permissionDenied", .ourConfiguration),
        (403, "forbidden", .ourConfiguration), (403, "quotaExceeded", .retryAfter),
        (403, "rateLimitExceeded", .retryAfter), (403, "userRateLimitExceeded", .retryAfter),
        (403, "dailyLimitExceeded", .retryAfter),
        (404, "purchaseTokenNotFound", .unknownPurchase), (404, "notFound", .unknownPurchase),
        (404, "applicationNotFound", .ourConfiguration),
        (409, "concurrentUpdate", .retrySoon),
        (410, "purchaseTokenNoLongerValid", .final(.purchaseExpired)),
        (410, "subscriptionPurchaseNoLongerAvailable", .final(.purchaseExpired)),
        (429, "rateLimitExceeded", .retryAfter), (429, "", .retryAfter), (408, "", .retrySoon),
        (500, "backendError", .retrySoon), (502, "backendError", .retrySoon), (503, "backendError", .retrySoon),
        (504, "", .retrySoon), (405, "", .ourConfiguration), (302, "", .retrySoon),
    ]

    @Test(arguments: rows)
    func errorHasItsClass(status: Int, reason: String, expected: GoogleErrorClass) throws {
        let body = try #require(GoogleErrorBody(PlayPurchase.error(status, reason).body))
        #expect(GoogleErrorClass(status: status, body: body) == expected)
    }

    @Test func quotaOf403IsToldByStatusOrMessageToo() {
        let quota = "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service"
        let body = GoogleErrorBody(PlayPurchase.error(403, "", message: quota).body)
        #expect(GoogleErrorClass(status: 403, body: body) == .retryAfter)
        #expect(GoogleErrorClass(status: 403, body: GoogleErrorBody(status: "RESOURCE_EXHAUSTED")) == .retryAfter)
        let rights = GoogleErrorBody(reason: "forbidden", status: "PERMISSION_DENIED")
        #expect(GoogleErrorClass(status: 403, body: rights) == .ourConfiguration)
    }

    @Test(arguments: [
        (400, GoogleErrorClass.ourConfiguration), (401, .renewAccessToken), (403, .ourConfiguration),
        (404, .retrySoon), (409, .retrySoon), (410, .retrySoon), (429, .retryAfter), (500, .retrySoon),
        (502, .retrySoon), (503, .retrySoon), (504, .retrySoon), (301, .retrySoon),
    ])
    func proxysPageNeverRefusesThePurchase(status: Int, expected: GoogleErrorClass) {
        #expect(GoogleErrorBody(Array("<html>gone</html>".utf8)) == nil)
        #expect(GoogleErrorBody(Array(#"{"message":"not Google"}"#.utf8)) == nil)
        #expect(GoogleErrorClass(status: status, body: nil) == expected)
    }

    @Test(arguments: [
        (400, "invalid_grant", GoogleErrorClass.ourConfiguration), (400, "invalid_request", .ourConfiguration),
        (400, "invalid_scope", .ourConfiguration), (400, "unsupported_grant_type", .ourConfiguration),
        (401, "invalid_client", .ourConfiguration), (401, "unauthorized_client", .ourConfiguration),
        (403, "", .ourConfiguration), (404, "", .ourConfiguration), (408, "", .retrySoon), (429, "", .retryAfter),
        (500, "", .retrySoon), (502, "", .retrySoon), (503, "", .retrySoon), (504, "", .retrySoon),
        (400, "internal_failure", .retrySoon), (400, "server_error", .retrySoon),
        (401, "temporarily_unavailable", .retrySoon),
    ])
    func tokenEndpointsAnswerHasItsClass(status: Int, error: String, expected: GoogleErrorClass) {
        #expect(GoogleErrorClass(tokenStatus: status, error: error, description: "…") == expected)
    }

    @Test func tokenEndpointsTroubleMayStandInTheDescription() {
        let found = GoogleErrorClass(tokenStatus: 400, error: "x", description: "internal_failure")
        #expect(found == .retrySoon)
    }
}
