// HTTP in both directions, on one loop: the client that asks the stores (libcurl) and the server that answers games
// (libmicrohttpd), with one vocabulary for both.
//
// - `HTTPClient` sends an `OutgoingRequest` and gives an `HTTPAnswer` or an `HTTPClientError`.
// - `HTTPServer` hands each `IncomingRequest` to the `Handler` that its `Router` finds and sends the
//   `OutgoingResponse` or `Problem` (RFC 9457) that comes back.
// - `OperationsListener` serves `/metrics`, `/healthz` and `/readyz` on a second port.
//
// Both libraries do the protocol; this module owns limits, deadlines, memory and the way from a C callback to `await`.
// Nothing here is remembered on disk: after a crash, requests that were under way are simply unknown to both sides, and
// the layers above repeat them (every store call and every API call of Teller is safe to repeat).

/// A request method, compared by its exact (case-sensitive) name as RFC 9110 §9.1 asks.
public struct HTTPMethod: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
    /// The name on the wire, such as "GET".
    public let rawValue: String

    /// Makes a method of any name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Makes a method of any name.
    public init(stringLiteral name: String) { rawValue = name }

    /// Reads a resource.
    public static let get: HTTPMethod = "GET"
    /// Reads a resource without its body.
    public static let head: HTTPMethod = "HEAD"
    /// Hands something over.
    public static let post: HTTPMethod = "POST"
    /// Replaces a resource.
    public static let put: HTTPMethod = "PUT"
    /// Changes a resource in part.
    public static let patch: HTTPMethod = "PATCH"
    /// Removes a resource.
    public static let delete: HTTPMethod = "DELETE"
    /// Asks what is possible.
    public static let options: HTTPMethod = "OPTIONS"
}
