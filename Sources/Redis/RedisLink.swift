import CHiredis
import Glibc
import ServiceRuntime

/// One socket to a Redis server, from connect to close; it never reconnects.
///
/// It does the three things that must be right for "sent or not, applied or not" to be known: it pairs replies with
/// commands in order, it counts the bytes that were really written, and it closes the descriptor itself when a deadline
/// passes. What to do next is its owner's business (``RedisConnection``, ``BlockingConnection``, ``RedisSubscriber``).
///
/// It stands on the non-blocking half of hiredis (`redisBufferRead`, `redisBufferWrite`, `redisGetReplyFromReader`),
/// the functions that hiredis' own async API is made of, and not on that API: its callback list would be a second copy
/// of our queue with one more allocation per command; it frees contexts inside callbacks; it hands a publish/subscribe
/// message to whatever command waits; and an unexpected reply from a broken server ends the process in an `assert`.
@LoopActor
final class RedisLink {
    typealias Reply = Result<RedisValue, RedisError>

    /// Who waits for a reply.
    enum Recipient {
        case task(UnsafeContinuation<Reply, Never>)
        case pipeline(PipelineReplies, index: Int)
        case closure(@LoopActor (Reply) -> Void)
    }

    private struct InFlight {
        let recipient: Recipient
        let deadline: MonotonicInstant
        /// Bytes that precede this command on the connection: it was sent if more than these were written.
        let startOffset: Int
    }

    /// Commands on one connection that wait for their replies, at most; more are refused.
    static let inFlightMax = 200_000
    /// Bytes that wait to be written, at most: a server that reads nothing must not fill our memory.
    static let outputBytesMax = 256 << 20
    /// `redisBufferRead` reads this much at a time (hiredis.c).
    private static let readBytes = 16 << 10
    /// Reads in one go before other descriptors get their turn.
    private static let readsPerTurnMax = 16

    private var context: UnsafeMutablePointer<redisContext>?
    private var watch: IOWatch?
    private let connected = Completion<RedisError?>()
    private var isConnecting = true
    private var encoder = CommandEncoder()
    private var inFlight = Queue<InFlight>()
    private var writtenBytes = 0
    private var isFlushScheduled = false
    private var isWaitingForWritable = false
    private var deadlineTimer: LoopTimer?
    private var deadlineTimerFires: MonotonicInstant?
    private var turnStart = MonotonicInstant.now
    private let commandDeadline: Duration

    /// Completed with the reason when the socket is closed; to be awaited by the owner only.
    let closed = Completion<RedisError>()
    /// Gets the replies that no command asked for: the messages of a subscriber.
    var onMessage: (@LoopActor (RedisValue) -> Void)?
    /// True when no new command may be given to this link: it ends with the last reply that is due.
    private(set) var isRetiring = false

    var isOpen: Bool { context != nil && !isRetiring }
    var inFlightCount: Int { inFlight.count }
    /// How often bytes came: who wants to know whether a link is silent compares two looks.
    private(set) var readCount = 0
    /// Whether the server owes us something.
    var isReplyDue: Bool { context != nil && (!inFlight.isEmpty || isMessageDue) }
    private var isMessageDue = false

    // MARK: - Connecting

    /// Connects to a numeric address or a socket path; `limit` bounds it.
    static func connect(
        to endpoint: RedisAddress.Endpoint, limit: Duration, commandDeadline: Duration
    ) async throws(RedisError) -> RedisLink {
        let link = try RedisLink(endpoint, commandDeadline)
        let timer = EventLoop.shared.timer(after: limit) {
            link.connected.complete(RedisError(.notConnected, "connecting took longer than \(limit)"))
        }
        let failure = await link.connected.wait()
        timer.cancel()
        if let failure {
            link.close(failure)
            throw failure
        }
        return link
    }

    private init(_ endpoint: RedisAddress.Endpoint, _ commandDeadline: Duration) throws(RedisError) {
        self.commandDeadline = commandDeadline
        let made =
            switch endpoint {
            case .tcp(let host, let port): redisConnectNonBlock(host, Int32(port))
            case .unix(let path): redisConnectUnixNonBlock(path)
            }
        guard let made else { throw RedisError(.notConnected, "out of memory") }
        guard made.pointee.err == 0 else {
            defer { redisFree(made) }
            throw RedisError(.notConnected, Self.text(of: made))
        }
        if case .tcp = endpoint { Self.watchOverPeer(made.pointee.fd, giveUpAfter: commandDeadline) }
        // Processes we start must not hold the connection open.
        _ = fcntl(made.pointee.fd, F_SETFD, FD_CLOEXEC)
        context = made
        do {
            // Until the connection stands only "writable" matters; afterwards "readable", plus "writable" while the
            // socket's buffer is full.
            watch = try EventLoop.shared.watch(fd: made.pointee.fd, .writable) { [weak self] in self?.handle($0) }
        } catch {
            context = nil
            redisFree(made)
            throw RedisError(.notConnected, "\(error)")
        }
    }

    /// A peer that vanished without a word (power cut, dropped packets) sends no FIN: probe it when idle (tcp(7)
    /// `TCP_KEEP…`), and give up on bytes it does not acknowledge (`TCP_USER_TIMEOUT`), else the kernel tries for 15 min.
    private static func watchOverPeer(_ fd: Int32, giveUpAfter limit: Duration) {
        let milliseconds = Int32(clamping: limit.inMilliseconds)
        let options: [(level: Int32, name: Int32, value: Int32)] = [
            (SOL_SOCKET, SO_KEEPALIVE, 1), (Int32(IPPROTO_TCP), TCP_KEEPIDLE, 5),
            (Int32(IPPROTO_TCP), TCP_KEEPINTVL, 1),
            (Int32(IPPROTO_TCP), TCP_KEEPCNT, 3), (Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, milliseconds),
        ]
        for var option in options {
            setsockopt(fd, option.level, option.name, &option.value, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    private func handle(_ events: IOEvents) {
        if isConnecting { return finishConnecting() }
        if events.contains(.readable) { read() }
        if events.contains(.writable), isWaitingForWritable { write() }
    }

    private func finishConnecting() {
        guard let context else { return }
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(context.pointee.fd, SOL_SOCKET, SO_ERROR, &code, &length)
        isConnecting = false
        guard code == 0 else {
            connected.complete(RedisError(.notConnected, String(cString: strerror(code))))
            return
        }
        watch?.update(.readable)
        connected.complete(nil)
    }

    // MARK: - Sending

    /// Sends a command; `recipient` hears exactly once, at the latest when the deadline passes.
    func send(_ arguments: [RedisArgument], deadline: MonotonicInstant? = nil, _ recipient: Recipient) {
        encoder.encode(arguments)
        commit(recipient, deadline)
    }

    /// Sends `EVAL <text>` or `EVALSHA <digest>` with the keys and arguments.
    func send(
        _ verb: RedisScript.Verb, keys: [RedisArgument], arguments: [RedisArgument], deadline: MonotonicInstant? = nil,
        _ recipient: Recipient
    ) {
        begin(verb, keyCount: keys.count, argumentCount: arguments.count)
        encoder.append(contentsOf: keys)
        encoder.append(contentsOf: arguments)
        commit(recipient, deadline)
    }

    /// Sends `EVAL <text>` or `EVALSHA <digest>` with keys and arguments that are written down already.
    func send(_ verb: RedisScript.Verb, _ parts: borrowing ScriptParts, _ recipient: Recipient) {
        begin(verb, keyCount: parts.keyCount, argumentCount: parts.argumentCount)
        commit(recipient, nil, parts.keys.bytes, parts.arguments.bytes)
    }

    private func begin(_ verb: RedisScript.Verb, keyCount: Int, argumentCount: Int) {
        encoder.begin(argumentCount: 3 + keyCount + argumentCount)
        switch verb {
        case .eval(let text):
            encoder.append("EVAL")
            encoder.append(text)
        case .evalsha(let digest):
            encoder.append("EVALSHA")
            encoder.append(digest)
        }
        encoder.append(.int(Int64(keyCount)))
    }

    /// Sends a command whose replies come as messages (SUBSCRIBE, and PING between messages).
    func sendExpectingMessages(_ arguments: [RedisArgument]) {
        guard context != nil else { return }
        isMessageDue = true
        encoder.encode(arguments)
        append(encoder.bytes)
        scheduleFlush()
    }

    /// Sends what the encoder holds, and `more` behind it.
    private func commit(_ recipient: Recipient, _ deadline: MonotonicInstant?, _ more: [UInt8]...) {
        guard let context, !isRetiring else { return Self.deliver(.failure(RedisError(.notConnected)), to: recipient) }
        let waiting = Int(sdslen(context.pointee.obuf))
        guard inFlight.count < Self.inFlightMax, waiting < Self.outputBytesMax else {
            return Self.deliver(.failure(RedisError(.refused, "too many commands wait for replies")), to: recipient)
        }
        scheduleFlush()
        let deadline = deadline ?? (turnStart + commandDeadline)
        inFlight.append(InFlight(recipient: recipient, deadline: deadline, startOffset: writtenBytes + waiting))
        append(encoder.bytes)
        for part in more { append(part) }
        watchDeadline(deadline)
    }

    private func append(_ bytes: [UInt8]) {
        guard let context else { return }
        let failed = bytes.withUnsafeBytes {
            redisAppendFormattedCommand(context, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
        }
        if failed != REDIS_OK { close(RedisError(.connectionLost, "out of memory")) }
    }

    /// Commands of all tasks that run in this turn leave in one write(2).
    private func scheduleFlush() {
        guard !isFlushScheduled else { return }
        isFlushScheduled = true
        // One look at the clock per turn is exact enough for deadlines of seconds.
        turnStart = .now
        EventLoop.shared.atTurnEnd { [weak self] in
            guard let self else { return }
            isFlushScheduled = false
            if !isWaitingForWritable { write() }
        }
    }

    private func write() {
        guard let context, !isConnecting else { return }
        let before = Int(sdslen(context.pointee.obuf))
        var isDone: Int32 = 0
        guard redisBufferWrite(context, &isDone) == REDIS_OK else {
            let reason = RedisError(.connectionLost, Self.text(of: context))
            // What arrived before the end of the stream is still an answer.
            read()
            return close(reason)
        }
        writtenBytes += before - Int(sdslen(context.pointee.obuf))
        if isWaitingForWritable != (isDone == 0) {
            isWaitingForWritable = isDone == 0
            watch?.update(isWaitingForWritable ? [.readable, .writable] : .readable)
        }
    }

    // MARK: - Receiving

    private func read() {
        // Replies are taken out after each read: hiredis moves the rest of its buffer to the front with every kilobyte it
        // consumes, which for a buffer of many reads costs more than everything else here.
        for _ in 0..<Self.readsPerTurnMax {
            guard let context else { return }
            let before = context.pointee.reader.pointee.len
            guard redisBufferRead(context) == REDIS_OK else {
                let reason = RedisError(.connectionLost, Self.text(of: context))
                readReplies()
                return close(reason)
            }
            readCount += 1
            isMessageDue = false
            let isMoreLikely = context.pointee.reader.pointee.len - before >= Self.readBytes
            readReplies()
            guard isMoreLikely else { return }
        }
    }

    private func readReplies() {
        // A recipient may close this link, so the context is looked at anew each time.
        while let context {
            var object: UnsafeMutableRawPointer?
            guard redisGetReplyFromReader(context, &object) == REDIS_OK else {
                return close(RedisError(.protocolError, Self.text(of: context)))
            }
            guard let object else { return }
            let value = RedisValue(copying: object.assumingMemoryBound(to: redisReply.self))
            freeReplyObject(object)
            receive(value)
        }
    }

    private func receive(_ value: RedisValue) {
        guard let first = inFlight.popFirst() else {
            if let onMessage { return onMessage(value) }
            // A server with no room for one more client says so without being asked.
            guard case .error(let error) = value else {
                return close(RedisError(.protocolError, "a reply that no command asked for"))
            }
            return close(error)
        }
        if case .error(let error) = value {
            if error.asksForAnotherConnection { retire() }
            Self.deliver(.failure(error), to: first.recipient)
        } else {
            Self.deliver(.success(value), to: first.recipient)
        }
        if isRetiring, inFlight.isEmpty { close(RedisError(.notConnected)) }
    }

    private static func deliver(_ reply: Reply, to recipient: Recipient) {
        switch recipient {
        case .task(let continuation): continuation.resume(returning: reply)
        case .pipeline(let replies, let index): replies.receive(reply, at: index)
        case .closure(let closure): closure(reply)
        }
    }

    // MARK: - Ending

    /// Takes no new commands, waits for the replies that are due, then closes.
    func retire() {
        isRetiring = true
        if inFlight.isEmpty { close(RedisError(.notConnected)) }
    }

    /// Closes the descriptor now; every waiting command learns whether it had been sent.
    func close(_ reason: RedisError) {
        guard let context else { return }
        self.context = nil
        let now = MonotonicInstant.now
        // Before the descriptor is closed: its number may be in use again in this very turn.
        watch?.stop()
        watch = nil
        deadlineTimer?.cancel()
        deadlineTimer = nil
        redisFree(context)
        connected.complete(reason)
        var isFirst = true
        while let command = inFlight.popFirst() {
            var error = RedisError(.connectionLost, reason.message)
            if command.startOffset >= writtenBytes {
                error = RedisError(.notConnected, "the connection was lost before the command was sent")
            } else if command.deadline <= now {
                error = RedisError(.deadlineExceeded, "no reply in time")
            } else if isFirst, reason.kind == .protocolError {
                error = reason
            }
            isFirst = false
            Self.deliver(.failure(error), to: command.recipient)
        }
        closed.complete(reason)
    }

    /// One timer for all commands: replies come in order, so it is set to the oldest and looks again when it fires.
    private func watchDeadline(_ deadline: MonotonicInstant) {
        if let deadlineTimerFires, deadlineTimerFires <= deadline { return }
        deadlineTimerFires = deadline
        let delay = deadline - turnStart
        if let deadlineTimer { return deadlineTimer.reschedule(after: delay) }
        deadlineTimer = EventLoop.shared.timer(after: delay) { [weak self] in self?.checkDeadlines() }
    }

    private func checkDeadlines() {
        deadlineTimer = nil
        deadlineTimerFires = nil
        // libuv runs timers before it looks at descriptors: after a long turn of ours the reply may well be there.
        if !inFlight.isEmpty { read() }
        guard context != nil, let oldest = inFlight.first else { return }
        turnStart = .now
        guard oldest.deadline <= turnStart else { return watchDeadline(oldest.deadline) }
        // Nobody behind the oldest can be answered sooner, and a socket that is silent for this long may be half open:
        // a fresh one is the only cure that always works (`CLIENT PAUSE`, SIGSTOP, a dead route look the same from here).
        close(RedisError(.connectionLost, "no reply within the deadline"))
    }

    private static func text(of context: UnsafeMutablePointer<redisContext>) -> String {
        withUnsafeBytes(of: context.pointee.errstr) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}

/// The replies of one pipeline: its task goes on when the last one is there.
@LoopActor
final class PipelineReplies {
    private var replies: [RedisLink.Reply]
    private var missing: Int
    private let continuation: UnsafeContinuation<[RedisLink.Reply], Never>

    init(count: Int, _ continuation: UnsafeContinuation<[RedisLink.Reply], Never>) {
        replies = Array(repeating: .success(.null), count: count)
        missing = count
        self.continuation = continuation
    }

    func receive(_ reply: RedisLink.Reply, at index: Int) {
        replies[index] = reply
        missing -= 1
        if missing == 0 { continuation.resume(returning: replies) }
    }
}
