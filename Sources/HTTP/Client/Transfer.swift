import CCurl
import ServiceRuntime

/// One libcurl easy handle with what belongs to the request it serves; used again for one request after the other.
///
/// Options that never change are set once, when the handle is made; the others only when they differ from what the
/// previous request left behind.
@LoopActor
final class Transfer {
    let easy: UnsafeMutableRawPointer
    let answer = AnswerBuffer()
    /// The shard that the transfer runs in; nil while it is idle.
    var shard: CurlShard?
    /// Whom to tell; nil when told.
    var exchange: Exchange?
    /// The place in the client's list of all transfers.
    var slot = 0

    private var headers: HeaderList?
    private var method: HTTPMethod = .get
    private var hasBody = false
    private var origin: Origin?
    private let hasProxy: Bool
    private var deadlineMilliseconds = -1

    init?(_ configuration: HTTPClient.Configuration, sockets: SocketTable, share: UnsafeMutableRawPointer?) {
        guard let easy = curl_easy_init() else { return nil }
        self.easy = easy
        hasProxy = configuration.proxy != nil
        setUp(configuration, sockets: sockets, share: share)
    }

    /// Frees the handle; it must not be part of a multi handle.
    func close() { curl_easy_cleanup(easy) }

    /// The transfer whose handle libcurl reports about.
    static func of(_ easy: UnsafeMutableRawPointer?) -> Transfer? {
        guard let easy else { return nil }
        var owner: UnsafeMutableRawPointer?
        teller_getinfo_pointer(easy, CURLINFO_PRIVATE, &owner)
        return owner.map { Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
    }

    private func setUp(_ configuration: HTTPClient.Configuration, sockets: SocketTable, share: UnsafeMutableRawPointer?)
    {
        // Neither the transfer nor the table is owned by the handle: the client keeps both until the handle is freed.
        teller_setopt_pointer(easy, CURLOPT_PRIVATE, Unmanaged.passUnretained(self).toOpaque())
        teller_setopt_receivers(
            easy, AnswerBuffer.receiveBody, AnswerBuffer.receiveHeader, Unmanaged.passUnretained(answer).toOpaque())
        teller_setopt_sockets(
            easy, SocketTable.openSocket, SocketTable.closeSocket, Unmanaged.passUnretained(sockets).toOpaque())
        if let share { teller_setopt_share(easy, share) }
        // "CURLOPT_NOSIGNAL: if this option is set, libcurl will not use any functions that install signal handlers".
        teller_setopt_long(easy, CURLOPT_NOSIGNAL, 1)
        teller_setopt_text(easy, CURLOPT_PROTOCOLS_STR, "http,https")
        teller_setopt_long(easy, CURLOPT_FOLLOWLOCATION, 0)
        teller_setopt_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        teller_setopt_long(easy, CURLOPT_TCP_NODELAY, 1)
        teller_setopt_long(easy, CURLOPT_TCP_KEEPALIVE, 1)
        teller_setopt_long(easy, CURLOPT_SSL_VERIFYPEER, 1)
        teller_setopt_long(easy, CURLOPT_SSL_VERIFYHOST, 2)
        teller_setopt_long(easy, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        // An empty text means "no proxy, whatever the environment says" (CURLOPT_PROXY).
        teller_setopt_text(easy, CURLOPT_PROXY, configuration.proxy ?? "")
        teller_setopt_text(easy, CURLOPT_NOPROXY, "")
        teller_setopt_text(easy, CURLOPT_USERAGENT, configuration.userAgent)
        teller_setopt_long(easy, CURLOPT_CONNECTTIMEOUT_MS, Int(configuration.connectTimeout.inMilliseconds))
        // Allocated per transfer for its whole life, so its size times the requests in flight is what counts.
        teller_setopt_long(easy, CURLOPT_BUFFERSIZE, 4096)
        if let file = configuration.certificateAuthorityFile {
            // Added to the system's directory, which stays CURLOPT_CAPATH's default.
            teller_setopt_text(easy, CURLOPT_CAINFO, file)
        } else {
            // libcurl keeps the parsed bundle between connections only when no directory has to be searched as well.
            teller_setopt_text(easy, CURLOPT_CAPATH, nil)
        }
    }

    /// Gives the handle the parts of `request`.
    func prepare(_ request: OutgoingRequest, to origin: Origin, target: String, headers: HeaderList, deadline: Duration)
    {
        if self.origin !== origin { setOrigin(origin) }
        // A plain-HTTP proxy wants the whole URL as the target.
        let isProxied = hasProxy && !origin.isSecure
        teller_setopt_text(easy, CURLOPT_REQUEST_TARGET, isProxied ? origin.url + target : target)
        if self.headers !== headers {
            teller_setopt_headers(easy, headers.list)
            self.headers = headers
        }
        setMethod(request.method, body: request.body)
        let milliseconds = Int(max(deadline.inMilliseconds, 1))
        if milliseconds != deadlineMilliseconds {
            teller_setopt_long(easy, CURLOPT_TIMEOUT_MS, milliseconds)
            deadlineMilliseconds = milliseconds
        }
        answer.begin(bodyBytesMax: request.answerBytesMax)
    }

    private func setOrigin(_ origin: Origin) {
        // The handle decides where the request goes; the text is what libcurl falls back to when it repeats a request
        // on a new connection because the old one was closed before anything was received.
        teller_setopt_text(easy, CURLOPT_URL, origin.url)
        teller_setopt_origin(easy, origin.handle)
        // Rather wait for the first answer's protocol than open a connection per request: HTTP/2 shares one.
        teller_setopt_long(easy, CURLOPT_PIPEWAIT, origin.isSecure ? 1 : 0)
        self.origin = origin
    }

    private func setMethod(_ method: HTTPMethod, body: [UInt8]?) {
        guard method != self.method || body != nil || hasBody else { return }
        if hasBody || self.method != .get {
            teller_setopt_text(easy, CURLOPT_CUSTOMREQUEST, nil)
            teller_setopt_long(easy, CURLOPT_HTTPGET, 1)
        }
        if let body {
            body.withUnsafeBytes { bytes in
                // The size first: "CURLOPT_COPYPOSTFIELDS: if you set the size, it must be set before".
                teller_setopt_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count))
                teller_setopt_pointer(easy, CURLOPT_COPYPOSTFIELDS, bytes.baseAddress ?? UnsafeRawPointer(easy))
            }
            if method != .post { teller_setopt_text(easy, CURLOPT_CUSTOMREQUEST, method.rawValue) }
        } else if method == .head {
            teller_setopt_long(easy, CURLOPT_NOBODY, 1)
        } else if method == .post {
            teller_setopt_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, 0)
            teller_setopt_pointer(easy, CURLOPT_COPYPOSTFIELDS, UnsafeRawPointer(easy))
        } else if method != .get {
            teller_setopt_text(easy, CURLOPT_CUSTOMREQUEST, method.rawValue)
        }
        self.method = method
        hasBody = body != nil
    }

    /// Reads the outcome out of a handle that libcurl is done with.
    func outcome(_ code: CURLcode) -> Result<HTTPAnswer, HTTPClientError> {
        let (headerLines, body) = answer.take()
        guard code == CURLE_OK else {
            if answer.isTooLarge { return .failure(HTTPClientError(.answerTooLarge)) }
            var requestBytes = 0
            teller_getinfo_long(easy, CURLINFO_REQUEST_SIZE, &requestBytes)
            return .failure(HTTPClientError(HTTPClientError.kind(of: code), wasNeverSent: requestBytes == 0))
        }
        var status = 0
        teller_getinfo_long(easy, CURLINFO_RESPONSE_CODE, &status)
        return .success(HTTPAnswer(status: status, headerLines: headerLines, body: body))
    }
}
