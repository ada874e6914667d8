import CMicrohttpd
import Glibc
import ServiceRuntime

/// The way of one request: libmicrohttpd calls the access handler first with the headers, then with each part of the
/// body, then once more; an answer given in the first call makes it close the connection.
extension HTTPServer {
    static let requestCame: MHD_AccessHandlerCallback = { owner, handle, path, method, _, bytes, count, context in
        guard let owner, let handle, let path, let method, let count, let context else { return .NO }
        let server = Unmanaged<HTTPServer>.fromOpaque(owner).takeUnretainedValue()
        guard let known = context.pointee else {
            nonisolated(unsafe) let handle = handle
            // Invariant: libmicrohttpd calls on the loop's thread, from inside `run`, and keeps the connection until it
            // calls `requestEnded`, where the request lets go of it.
            let method = HTTPMethod(rawValue: String(cString: method))
            let path = String(cString: path)
            let (request, result) = LoopActor.assumeIsolated {
                let request = IncomingRequest(method: method, path: path, handle: handle)
                return (request, server.begin(request))
            }
            // Owned by libmicrohttpd's connection until it reports the end of the request (`requestEnded`).
            context.pointee = Unmanaged.passRetained(request).toOpaque()
            return result
        }
        let request = Unmanaged<IncomingRequest>.fromOpaque(known).takeUnretainedValue()
        guard count.pointee == 0 else {
            nonisolated(unsafe) let part = UnsafeRawBufferPointer(start: bytes, count: count.pointee)
            // Invariant: copied before this call returns, on this thread.
            count.pointee = 0
            return LoopActor.assumeIsolated { server.receive(request, part) }
        }
        return LoopActor.assumeIsolated { server.complete(request) }
    }

    static let requestEnded: MHD_RequestCompletedCallback = { owner, _, context, _ in
        guard let owner, let context, let known = context.pointee else { return }
        context.pointee = nil
        let server = Unmanaged<HTTPServer>.fromOpaque(owner).takeUnretainedValue()
        // Released here what `begin` retained.
        let request = Unmanaged<IncomingRequest>.fromOpaque(known).takeRetainedValue()
        LoopActor.assumeIsolated { server.over(request) }
    }

    static let connectionChanged: MHD_NotifyConnectionCallback = { owner, handle, context, change in
        guard let owner, let handle, let context else { return }
        let server = Unmanaged<HTTPServer>.fromOpaque(owner).takeUnretainedValue()
        if change == .CONNECTION_NOTIFY_STARTED {
            let descriptor = teller_MHD_connection_fd(handle)
            let connection = LoopActor.assumeIsolated { server.connectionOpened(descriptor) }
            context.pointee = Unmanaged.passRetained(connection).toOpaque()
        } else if let known = context.pointee {
            context.pointee = nil
            let connection = Unmanaged<ServerConnection>.fromOpaque(known).takeRetainedValue()
            LoopActor.assumeIsolated { server.connectionClosed(connection) }
        }
    }

    /// The headers are there.
    private func begin(_ request: IncomingRequest) -> MHD_Result {
        guard let handle = request.handle else { return .NO }
        if let owner = teller_MHD_connection_owner(handle) {
            let connection = Unmanaged<ServerConnection>.fromOpaque(owner).takeUnretainedValue()
            connection.request = request
            connection.requests += 1
            request.connection = connection
        }
        let match = router.match(request.method, request.path)
        request.match = match
        request.bodyBytesMax = configuration.bodyBytesMax
        if case .route(let route, _) = match, let bytesMax = route.bodyBytesMax { request.bodyBytesMax = bytesMax }
        guard let framing = BodyFraming(handle) else { return .YES }
        switch framing {
        case .invalid(let mistake):
            return send(request, router.response(to: .badRequest(mistake)))
        case .length(let bytes) where bytes > UInt64(request.bodyBytesMax + Self.excessBytesMax):
            return send(request, router.response(to: .bodyTooLarge(bytesMax: request.bodyBytesMax)))
        case .length(let bytes):
            request.connection?.since = .now
            if bytes <= UInt64(request.bodyBytesMax) { request.body.reserveCapacity(Int(bytes)) }
        case .chunked:
            request.connection?.since = .now
        }
        return .YES
    }

    /// A part of the body is there.
    private func receive(_ request: IncomingRequest, _ bytes: UnsafeRawBufferPointer) -> MHD_Result {
        guard request.excessBytes == 0, request.body.count + bytes.count <= request.bodyBytesMax else {
            request.excessBytes += bytes.count
            request.body = []
            return request.excessBytes > Self.excessBytesMax ? .NO : .YES
        }
        request.body.append(contentsOf: bytes)
        return .YES
    }

    /// The request is complete; called again for a connection that was resumed without an answer.
    private func complete(_ request: IncomingRequest) -> MHD_Result {
        guard request.phase == .receiving else { return .NO }
        if request.excessBytes > 0 {
            return send(request, router.response(to: .bodyTooLarge(bytesMax: request.bodyBytesMax)))
        }
        guard case .route(let route, let parameters) = request.match else {
            guard case .problem(let problem) = request.match else { return .NO }
            return send(request, router.response(to: problem))
        }
        request.pathParameters = parameters
        if let problem = request.readQuery() { return send(request, router.response(to: problem)) }
        request.phase = .handling
        request.isStarting = true
        openRequests += 1
        request.task = Task.immediate { @LoopActor in
            let response = await route.handler(request)
            self.answer(request, response)
        }
        request.isStarting = false
        if let response = request.response { return send(request, response) }
        if let handle = request.handle { MHD_suspend_connection(handle) }
        return .YES
    }

    /// The handler has an answer.
    func answer(_ request: IncomingRequest, _ response: OutgoingResponse) {
        guard request.phase == .handling, request.response == nil else { return }
        request.response = response
        if request.isStarting { return }
        guard let handle = request.handle else { return }
        switch response.fault {
        case .hang where !isDraining: return
        case .hang, .close: break
        case .reset: request.connection?.resetOnClose()
        case .truncated, nil:
            // "For suspended connection this function can be called at any moment" (MHD_queue_response).
            _ = send(request, response)
        }
        resume(handle)
    }

    /// Closes the connection of a suspended request without an answer.
    func refuse(_ request: IncomingRequest) {
        if let handle = request.handle { resume(handle) }
    }

    private func resume(_ handle: OpaquePointer) {
        MHD_resume_connection(handle)
        wakeAtTurnEnd()
    }

    /// Hands the answer to libmicrohttpd.
    private func send(_ request: IncomingRequest, _ response: OutgoingResponse) -> MHD_Result {
        guard let handle = request.handle else { return .NO }
        switch response.fault {
        case .hang:
            request.response = response
            MHD_suspend_connection(handle)
            return .YES
        case .close: return .NO
        case .reset:
            request.connection?.resetOnClose()
            return .NO
        case .truncated, nil: break
        }
        if request.phase == .handling { metrics?.count(response.status, since: request.startedAt) }
        request.phase = .answering
        request.connection?.since = .now
        guard let made = MHDResponse.make(response, closing: isDraining) else { return .NO }
        defer { MHD_destroy_response(made) }
        return MHD_queue_response(handle, UInt32(response.status), made)
    }

    /// The request is answered or lost; libmicrohttpd forgets it after this.
    private func over(_ request: IncomingRequest) {
        if request.task != nil {
            openRequests -= 1
            if isDraining, !isCuttingOff, request.phase == .answering { drain?.report.answered += 1 }
            request.task = nil
        }
        request.phase = .over
        request.handle = nil
        guard let connection = request.connection else { return }
        request.connection = nil
        connection.request = nil
        connection.since = .now
        if isDraining { connection.endReading() }
    }
}

/// How a request says where its body ends.
enum BodyFraming {
    case length(UInt64)
    case chunked
    case invalid(String)

    /// Looks at the headers that libmicrohttpd has parsed; nil when there is no body.
    ///
    /// libmicrohttpd takes the first of several `Content-Length` headers and prefers `Transfer-Encoding` over it. A
    /// proxy in front may decide otherwise, which is how requests are smuggled, so both are refused (RFC 9112 §6.3).
    init?(_ handle: OpaquePointer) {
        guard let text = MHD_lookup_connection_value(handle, .HEADER_KIND, "Content-Length") else {
            guard let coding = MHD_lookup_connection_value(handle, .HEADER_KIND, "Transfer-Encoding") else {
                return nil
            }
            let isChunked = strcasecmp(coding, "chunked") == 0
            self = isChunked ? .chunked : .invalid("The only transfer coding that is understood is chunked.")
            return
        }
        guard MHD_lookup_connection_value(handle, .HEADER_KIND, "Transfer-Encoding") == nil else {
            self = .invalid("Content-Length and Transfer-Encoding exclude each other.")
            return
        }
        var lengths = 0
        MHD_get_connection_values(
            handle, .HEADER_KIND,
            { lengths, _, name, _ in
                if let name, strcasecmp(name, "Content-Length") == 0 {
                    lengths?.assumingMemoryBound(to: Int.self).pointee += 1
                }
                return .YES
            }, &lengths)
        guard lengths == 1, let bytes = UInt64(String(cString: text)) else {
            self = .invalid("Content-Length is given more than once.")
            return
        }
        if bytes == 0 { return nil }
        self = .length(bytes)
    }
}
