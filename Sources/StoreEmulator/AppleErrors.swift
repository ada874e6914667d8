import HTTP
import ServiceRuntime

/// Apple's error answers, worded as the documentation words them.
enum AppleErrors {
    private static let messages: [Int64: String] = [
        4_000_000: "Bad request.", 4_000_006: "Invalid transaction id.",
        4_000_048: "Invalid request. App transactions aren't supported by this endpoint.",
        4_040_001: "Account not found.", 4_040_002: "Account not found. Please try again.",
        4_040_003: "App not found.", 4_040_004: "App not found. Please try again.",
        4_040_005: "Original transaction id not found.",
        4_040_006: "Original transaction id not found. Please try again.", 4_040_010: "Transaction id not found.",
        4_290_000: "Rate limit exceeded.", 5_000_000: "An unknown error occurred.",
        5_000_001: "An unknown error occurred. Please try again.",
    ]

    /// Apple: "HTTP status = first three digits of errorCode for every known code".
    static func response(code: Int64, now: UnixMilliseconds) -> OutgoingResponse {
        var body = JSONWriter()
        body.object { body in
            body.member("errorCode", code)
            body.member("errorMessage", messages[code] ?? "An error occurred.")
        }
        var response = OutgoingResponse.json(Int(code / 10_000), body.bytes)
        if code == 4_290_000 { response.headers.append(("Retry-After", String((now + .seconds(1)).value))) }
        return response
    }

    /// What Apple would most likely send along with a status.
    static func response(status: Int, now: UnixMilliseconds) -> OutgoingResponse {
        switch status {
        case 400: response(code: 4_000_000, now: now)
        case 401: unauthorized
        case 404: response(code: 4_040_010, now: now)
        case 429: response(code: 4_290_000, now: now)
        case 500: response(code: 5_000_000, now: now)
        default: .text(status, "Service unavailable\n")
        }
    }

    /// Not JSON: clients must not need it to be.
    static var unauthorized: OutgoingResponse {
        .text(401, "Unauthenticated\n\nRequest ID: EMULATED.0.0\n")
    }

    static func receiptStatus(
        _ status: Int, environment: EmulatedEnvironment? = nil, isRetryable: Bool = false
    ) -> [UInt8] {
        var body = JSONWriter()
        body.object { body in
            body.member("status", status)
            if let environment { body.member("environment", environment.rawValue) }
            if (21_100...21_199).contains(status) { body.member("is_retryable", isRetryable ? 1 : 0) }
        }
        return body.bytes
    }
}
