public import ServiceRuntime

/// An error answer in `application/problem+json` (RFC 9457).
///
/// The texts are for people and must not contain what the client sent as a secret (receipts, tokens, keys).
public struct Problem: Sendable {
    /// The status code, 400...599.
    public let status: Int
    /// A fixed word for programs, such as "body-too-large"; also the last part of `type`.
    public let reason: String
    /// Additional headers, such as `Allow` and `Retry-After`.
    public var headers: [(String, String)] = []
    private let title: String
    private let detail: String
    private let extra: @Sendable (inout JSONWriter) -> Void

    /// Describes an error.
    ///
    /// - Parameters:
    ///   - status: The status code.
    ///   - reason: A fixed word for programs (lower case, hyphens).
    ///   - title: The same for every occurrence of the reason.
    ///   - detail: What is special about this one.
    ///   - extra: Writes extension members (RFC 9457 §3.2).
    public init(
        status: Int, reason: String, title: String, detail: String = "",
        extra: @escaping @Sendable (inout JSONWriter) -> Void = { _ in }
    ) {
        self.status = status
        self.reason = reason
        self.title = title
        self.detail = detail
        self.extra = extra
    }

    /// The answer to send.
    public var response: OutgoingResponse { response { _ in } }

    /// The answer to send, with more members.
    func response(more: (inout JSONWriter) -> Void) -> OutgoingResponse {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("type", "urn:teller:problem:\(reason)")
            writer.member("title", title)
            writer.member("status", status)
            if !detail.isEmpty { writer.member("detail", detail) }
            writer.member("reason", reason)
            extra(&writer)
            more(&writer)
        }
        return OutgoingResponse(
            status: status, headers: [("Content-Type", "application/problem+json")] + headers, body: writer.bytes)
    }
}

extension Problem {
    static func bodyTooLarge(bytesMax: Int) -> Problem {
        Problem(
            status: 413, reason: "body-too-large", title: "The request's body is too large.",
            detail: "At most \(bytesMax) bytes are accepted here.")
    }

    static func badRequest(_ detail: String) -> Problem {
        Problem(status: 400, reason: "malformed-request", title: "The request is malformed.", detail: detail)
    }

    static let notFound = Problem(status: 404, reason: "not-found", title: "There is nothing at this path.")

    static let stopping = Problem(
        status: 503, reason: "stopping", title: "The server is stopping.", detail: "Send the request again.")

    static func methodNotAllowed(_ allowed: [String]) -> Problem {
        let list = allowed.joined(separator: ", ")
        var problem = Problem(
            status: 405, reason: "method-not-allowed", title: "The method is not allowed here.",
            detail: "Allowed: \(list).")
        problem.headers = [("Allow", list)]
        return problem
    }

    /// 415 when a request's body is not of `type`, which is what a handler that reads a body checks first.
    ///
    /// - Returns: nil when the `Content-Type` matches.
    @LoopActor
    public static func unlessContentType(_ type: String, _ request: IncomingRequest) -> Problem? {
        if ContentType.matches(request.header("Content-Type"), type) { return nil }
        return Problem(
            status: 415, reason: "unsupported-media-type", title: "The body's media type is not accepted.",
            detail: "Send Content-Type: \(type).")
    }
}
