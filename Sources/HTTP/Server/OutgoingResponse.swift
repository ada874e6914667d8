/// What the server answers.
public struct OutgoingResponse: Sendable {
    /// The status code, 200...599.
    public var status: Int
    /// Header names and values; `Date`, `Content-Length` and `Connection` are added by the server.
    public var headers: [(String, String)]
    /// The whole body.
    public var body: [UInt8]
    /// Misbehaviour instead of a proper answer; only the emulator of the stores asks for it.
    public var fault: ResponseFault?

    /// Describes an answer.
    public init(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// An answer in JSON.
    public static func json(_ status: Int, _ body: [UInt8]) -> OutgoingResponse {
        OutgoingResponse(status: status, headers: [("Content-Type", "application/json")], body: body)
    }

    /// An answer in plain UTF-8 text.
    public static func text(_ status: Int, _ text: String) -> OutgoingResponse {
        OutgoingResponse(
            status: status, headers: [("Content-Type", "text/plain; charset=utf-8")], body: Array(text.utf8))
    }
}

/// How a server can fail in the middle of answering, for those who must survive it.
public enum ResponseFault: Sendable, Hashable {
    /// Announces the whole body, sends this many bytes of it, and closes the connection.
    ///
    /// With 0 the headers may be lost too.
    case truncated(afterBytes: Int)
    /// Closes the connection without a word.
    case close
    /// Resets the connection (TCP RST) without a word.
    case reset
    /// Never answers; ends when the client goes or the server stops.
    case hang
}
