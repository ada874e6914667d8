import CCurl

/// Why a request has no answer; never carries the URL, a header or a body.
public struct HTTPClientError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What went wrong, in the terms of those who decide what to do next.
    public enum Kind: Hashable, Sendable {
        /// The name is unknown or DNS does not answer.
        case resolve
        /// Nobody accepts connections there.
        case connect
        /// The server could not prove who it is, or does not speak TLS as we require.
        case tls
        /// The connect or the total deadline passed.
        case timeout
        /// The connection ended after the request went out and before any answer.
        case connectionLost
        /// The answer ended before its announced length.
        case truncated
        /// The answer grew over `answerBytesMax`, or its header block over the client's limit.
        case answerTooLarge
        /// The answer is not HTTP.
        case badAnswer
        /// The request cannot be sent as it is: URL, scheme or a header is malformed.
        case invalidRequest
        /// The client was stopped.
        case stopped
        /// The waiting task was cancelled.
        case cancelled
        /// Anything else, by libcurl's number.
        case other(code: Int)
    }

    /// What went wrong.
    public let kind: Kind

    /// True when nothing of the request can have reached the server.
    public let wasNeverSent: Bool

    /// Makes an error; `wasNeverSent` false is the careful choice.
    public init(_ kind: Kind, wasNeverSent: Bool = false) {
        self.kind = kind
        self.wasNeverSent = wasNeverSent
    }

    /// True when the same request may succeed later without anybody changing anything.
    ///
    /// A refused certificate is not: somebody has to look (the purchase behind it waits, it is not rejected).
    public var isRetryable: Bool {
        switch kind {
        case .resolve, .connect, .timeout, .connectionLost, .truncated, .badAnswer, .stopped, .cancelled: true
        case .tls, .answerTooLarge, .invalidRequest: false
        case .other: true
        }
    }

    /// A short word for logs and metric labels.
    public var name: String {
        switch kind {
        case .resolve: "resolve"
        case .connect: "connect"
        case .tls: "tls"
        case .timeout: "timeout"
        case .connectionLost: "connection-lost"
        case .truncated: "truncated"
        case .answerTooLarge: "answer-too-large"
        case .badAnswer: "bad-answer"
        case .invalidRequest: "invalid-request"
        case .stopped: "stopped"
        case .cancelled: "cancelled"
        case .other: "other"
        }
    }

    /// For example "HTTP request failed: timeout".
    public var description: String {
        if case .other(let code) = kind { return "HTTP request failed: curl error \(code)" }
        return "HTTP request failed: \(name)"
    }

    /// Translates libcurl's code (https://curl.se/libcurl/c/libcurl-errors.html).
    static func kind(of code: CURLcode) -> Kind {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: .resolve
        case CURLE_COULDNT_CONNECT: .connect
        case CURLE_OPERATION_TIMEDOUT: .timeout
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_ENGINE_INITFAILED,
            CURLE_USE_SSL_FAILED:
            .tls
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR: .connectionLost
        case CURLE_PARTIAL_FILE, CURLE_HTTP2, CURLE_HTTP2_STREAM: .truncated
        // Schemes were checked before, so the unsupported protocol is an answer without a status line (HTTP/0.9).
        case CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING, CURLE_UNSUPPORTED_PROTOCOL: .badAnswer
        case CURLE_URL_MALFORMAT: .invalidRequest
        default: .other(code: Int(code.rawValue))
        }
    }
}
