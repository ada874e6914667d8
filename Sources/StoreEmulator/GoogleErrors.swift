import HTTP
import ServiceRuntime

/// Google's error answers in the format that carries `errors[]`.
enum GoogleErrors {
    static func response(
        _ code: Int, reason: String, _ message: String, domain: String = "global", status: String? = nil,
        isAboutToken: Bool = false
    ) -> OutgoingResponse {
        var body = JSONWriter()
        body.object { body in
            body.member(
                "error",
                object: { error in
                    error.member("code", code)
                    error.member("message", message)
                    error.member(
                        "errors",
                        array: { errors in
                            errors.object { item in
                                item.member("message", message)
                                item.member("domain", domain)
                                item.member("reason", reason)
                                if isAboutToken {
                                    item.member("location", "token")
                                    item.member("locationType", "parameter")
                                }
                            }
                        })
                    error.member("status", status)
                })
        }
        return .json(code, body.bytes)
    }

    static let invalid = response(400, reason: "invalid", "Invalid Value")
    static let notOwned = response(
        400, reason: "productNotOwnedByUser", "The product purchase is not owned by the user.")
    static let otherProduct = response(
        400, reason: "purchaseTokenDoesNotMatchProductId", "The purchase token does not match the product ID.",
        isAboutToken: true)
    static let otherPackage = response(
        400, reason: "purchaseTokenDoesNotMatchPackageName", "The purchase token does not match the package name.",
        isAboutToken: true)
    static let unauthenticated = response(
        401, reason: "authError", "Request had invalid authentication credentials.", status: "UNAUTHENTICATED")
    static let forbidden = response(
        403, reason: "forbidden",
        "The current user has insufficient permissions to perform the requested operation.",
        status: "PERMISSION_DENIED")
    static let tokenNotFound = response(
        404, reason: "purchaseTokenNotFound", "The purchase token was not found.", isAboutToken: true)
    static let applicationNotFound = response(
        404, reason: "applicationNotFound", "No application was found for the given package name.")
    static let gone = response(
        410, reason: "purchaseTokenNoLongerValid", "The purchase token is no longer valid.", domain: "androidpublisher",
        isAboutToken: true)
    static let quota = response(
        429, reason: "rateLimitExceeded",
        "Quota exceeded for quota metric of service 'androidpublisher.googleapis.com'.", status: "RESOURCE_EXHAUSTED")

    /// What Google would most likely send along with a status.
    static func response(status: Int) -> OutgoingResponse {
        switch status {
        case 400: invalid
        case 401: unauthenticated
        case 403: forbidden
        case 404: tokenNotFound
        case 409: response(409, reason: "concurrentUpdate", "The operation conflicts with another one.")
        case 410: gone
        case 429: quota
        default: response(status, reason: "backendError", "Backend Error")
        }
    }

    /// The token endpoint's own format (RFC 6749 §5.2).
    static func oauth(_ error: String, _ description: String) -> OutgoingResponse {
        var body = JSONWriter()
        body.object { body in
            body.member("error", error)
            body.member("error_description", description)
        }
        return .json(400, body.bytes)
    }
}
