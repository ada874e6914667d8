import Glibc
package import ServiceRuntime

/// A TCP proxy in front of Redis that understands where a command and its reply begin and end, and can lose either.
///
/// The two worst moments of a command are "never arrived" and "was applied, but the reply is lost"; to the client they
/// look the same. ``cut(_:_:)`` makes either happen to one named command. ``isBlackHole`` makes the network swallow
/// everything without closing anything, as a dead route does.
@LoopActor
package final class RedisProxy {
    /// When a connection is cut.
    package enum Moment: String, Sendable, CaseIterable {
        /// Redis never sees the command.
        case beforeItIsApplied = "before it is applied"
        /// Redis has applied it; the client never hears of it.
        case afterItWasApplied = "after it was applied"
    }

    /// Where clients connect.
    package let port: Int
    /// While true every byte in either direction vanishes; connections that lost bytes never carry any again.
    package var isBlackHole = false
    /// What is still to be cut.
    private var plan: [(label: String, moment: Moment)] = []
    /// How many connections were cut as planned.
    package private(set) var cuts = 0
    /// How often each command was seen, by ``CommandLabel``.
    package private(set) var seen: [String: Int] = [:]

    private let serverPort: Int
    private let listener: Int32
    private var watch: IOWatch?
    fileprivate var connections: [ObjectIdentifier: ProxiedConnection] = [:]

    /// Listens on a free port; connects to `serverPort` for each client.
    package init(to serverPort: Int) throws {
        self.serverPort = serverPort
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let fd = socket(AF_INET, type, 0)
        guard fd >= 0, FreePort.withLoopback(port: 0, { bind(fd, $0, $1) }) == 0, listen(fd, 128) == 0,
            let port = FreePort.port(of: fd)
        else { throw LabError.stage("proxy: \(String(cString: strerror(errno)))") }
        listener = fd
        self.port = port
        watch = try EventLoop.shared.watch(fd: fd, .readable) { [unowned self] _ in accept() }
    }

    /// Cuts the connection of the next command with this label, once; after the cuts that were asked for before.
    package func cut(_ label: String, _ moment: Moment) { plan.append((label, moment)) }

    /// Loses the reply to a command that was sent already and waits for a push to a list, or behind a command that
    /// does.
    ///
    /// - Returns: Whether there is one at the moment.
    package func cutWaiting(_ label: String, onList key: String) -> Bool {
        connections.values.contains { $0.loseReply(to: label, onList: key) }
    }

    /// Takes back what has not happened.
    package func cutNothing() { plan = [] }

    /// How many planned cuts have not happened.
    package var cutsToCome: Int { plan.count }

    /// Cuts every connection now.
    package func cutAll() { for connection in connections.values { connection.close() } }

    /// Stops listening and cuts everything.
    package func stop() {
        guard let watch else { return }
        watch.stop()
        self.watch = nil
        close(listener)
        cutAll()
    }

    private func accept() {
        while true {
            let client = Glibc.accept(listener, nil, nil)
            guard client >= 0 else { return }
            _ = fcntl(client, F_SETFD, FD_CLOEXEC)
            _ = fcntl(client, F_SETFL, O_NONBLOCK)
            let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            // Loopback: it connects at once, or is refused at once; then the client meets a closed connection.
            guard server >= 0, FreePort.withLoopback(port: serverPort, { connect(server, $0, $1) }) == 0,
                fcntl(server, F_SETFL, O_NONBLOCK) == 0,
                let connection = try? ProxiedConnection(self, client: client, server: server)
            else {
                close(client)
                if server >= 0 { close(server) }
                continue
            }
            connections[ObjectIdentifier(connection)] = connection
        }
    }

    /// Notes a command, and says what is to become of it.
    fileprivate func fate(of label: String) -> Moment? {
        seen[label, default: 0] += 1
        guard let next = plan.first, next.label == label else { return nil }
        plan.removeFirst()
        return next.moment
    }

    fileprivate func wasCut() { cuts += 1 }

    fileprivate func cutAfterAll(_ label: String) { plan.insert((label, .afterItWasApplied), at: 0) }
}

/// Names a command by what it does to which kinds of keys, as an observer sees it.
///
/// Such as `HSETNX claims` and `script meta,running,status`. A script's digest would change with every edit of its text.
enum CommandLabel {
    static func make(_ words: [[UInt8]]) -> String {
        guard let first = words.first else { return "" }
        let name = String(decoding: first, as: UTF8.self).uppercased()
        guard name == "EVAL" || name == "EVALSHA", words.count > 2,
            let count = Int(String(decoding: words[2], as: UTF8.self)), words.count >= 3 + count
        else { return words.count > 1 ? "\(name) \(kind(words[1]))" : name }
        var kinds: [String] = []
        for key in words[3..<(3 + count)] {
            let kind = kind(key)
            if !kinds.contains(kind) { kinds.append(kind) }
        }
        return "script " + kinds.joined(separator: ",")
    }

    /// `teller:{0}:running:host:1:2` is a "running", `teller:claims:77` a "claims".
    private static func kind(_ key: [UInt8]) -> String {
        let parts = String(decoding: key.prefix(64), as: UTF8.self).split(separator: ":")
        guard parts.first == "teller", parts.count > 1 else { return parts.first.map(String.init) ?? "" }
        return String(parts[1].hasPrefix("{") && parts.count > 2 ? parts[2] : parts[1])
    }
}

/// One client's connection, with its own to Redis.
@LoopActor
private final class ProxiedConnection {
    private unowned let proxy: RedisProxy
    private var client: ProxySocket?
    private var server: ProxySocket?
    private var requests = RESPBuffer()
    private var replies = RESPBuffer()
    /// The commands whose replies are due, and whether the reply is the one to lose.
    private var due: [(label: String, key: [UInt8], isToLose: Bool)] = []
    /// The label of the command whose reply is to be lost.
    private var unanswered: String?
    private var isSubscriber = false
    private var isDead = false

    init(_ proxy: RedisProxy, client: Int32, server: Int32) throws {
        self.proxy = proxy
        self.client = try ProxySocket(client)
        self.server = try ProxySocket(server)
        self.client?.received = { [unowned self] in fromClient($0) }
        self.server?.received = { [unowned self] in fromServer($0) }
    }

    func close() {
        if let unanswered {
            // The client gave up before the reply came: that was its loss, not the planned one.
            self.unanswered = nil
            proxy.cutAfterAll(unanswered)
        }
        client?.close()
        server?.close()
        client = nil
        server = nil
        proxy.connections[ObjectIdentifier(self)] = nil
    }

    /// The second half of ``RedisProxy/cutWaiting(_:onList:)``.
    func loseReply(to label: String, onList key: String) -> Bool {
        guard due.first?.label.hasPrefix("BLMOVE") == true, due[0].key == Array(key.utf8), unanswered == nil,
            let index = due.firstIndex(where: { $0.label == label })
        else { return false }
        due[index].isToLose = true
        unanswered = label
        return true
    }

    private func swallows() -> Bool {
        if proxy.isBlackHole { isDead = true }
        return isDead
    }

    private func fromClient(_ bytes: [UInt8]?) {
        guard let bytes else { return close() }
        if swallows() { return }
        requests.append(bytes)
        while let command = requests.next() {
            let words = RESPBuffer.words(of: command)
            let label = CommandLabel.make(words)
            if label.hasPrefix("SUBSCRIBE") { isSubscriber = true }
            let fate = proxy.fate(of: label)
            if fate == .beforeItIsApplied {
                proxy.wasCut()
                return close()
            }
            if fate == .afterItWasApplied { unanswered = label }
            due.append((label, words.count > 1 ? words[1] : [], fate == .afterItWasApplied))
            server?.send(command)
        }
    }

    private func fromServer(_ bytes: [UInt8]?) {
        guard let bytes else { return close() }
        if swallows() { return }
        guard !isSubscriber else {
            client?.send(bytes)
            return
        }
        replies.append(bytes)
        while let reply = replies.next() {
            if !due.isEmpty, due.removeFirst().isToLose {
                unanswered = nil
                proxy.wasCut()
                return close()
            }
            client?.send(reply)
        }
    }
}

/// A socket that keeps what the kernel does not take yet.
@LoopActor
private final class ProxySocket {
    private let fd: Int32
    private var watch: IOWatch?
    private var unsent: [UInt8] = []
    /// Gets what came; nil at the end of the stream.
    var received: (([UInt8]?) -> Void)?

    init(_ fd: Int32) throws {
        self.fd = fd
        watch = try EventLoop.shared.watch(fd: fd, .readable) { [unowned self] events in ready(events) }
    }

    func close() {
        guard let watch else { return }
        watch.stop()
        self.watch = nil
        received = nil
        Glibc.close(fd)
    }

    func send(_ bytes: some Collection<UInt8>) {
        unsent.append(contentsOf: bytes)
        flush()
    }

    private func ready(_ events: IOEvents) {
        if events.contains(.writable) { flush() }
        guard events.contains(.readable) else { return }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(fd, &bytes, bytes.count, 0)
        if count > 0 {
            received?(Array(bytes[..<count]))
        } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
            received?(nil)
        }
    }

    private func flush() {
        guard let watch, !unsent.isEmpty else { return }
        let sent = Glibc.send(fd, unsent, unsent.count, Int32(MSG_NOSIGNAL))
        if sent > 0 { unsent.removeFirst(sent) }
        // A broken connection shows itself at the next read.
        watch.update(unsent.isEmpty ? .readable : [.readable, .writable])
    }
}

/// Splits a stream of RESP2 into whole values.
struct RESPBuffer {
    private var bytes: [UInt8] = []
    private var start = 0

    mutating func append(_ more: [UInt8]) {
        if start > 1 << 16 || start == bytes.count {
            bytes.removeFirst(start)
            start = 0
        }
        bytes.append(contentsOf: more)
    }

    /// The next whole value; nil when its end has not come yet.
    mutating func next() -> ArraySlice<UInt8>? {
        guard let end = end(ofValueAt: start) else { return nil }
        defer { start = end }
        return bytes[start..<end]
    }

    /// The strings of a command, which is an array of bulk strings.
    static func words(of command: ArraySlice<UInt8>) -> [[UInt8]] {
        var words: [[UInt8]] = []
        var at = command.startIndex
        guard let (count, first) = line(in: command, at: at), command[at] == UInt8(ascii: "*") else { return [] }
        at = first
        for _ in 0..<count {
            guard let (length, begin) = line(in: command, at: at), length >= 0 else { break }
            words.append(Array(command[begin..<(begin + length)]))
            at = begin + length + 2
        }
        return words
    }

    private func end(ofValueAt at: Int) -> Int? {
        guard at < bytes.count, let lineEnd = bytes[at...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let after = lineEnd + 1
        switch bytes[at] {
        case UInt8(ascii: "$"):
            guard let (length, _) = Self.line(in: bytes[...], at: at), length >= 0 else { return after }
            return after + length + 2 <= bytes.count ? after + length + 2 : nil
        case UInt8(ascii: "*"):
            guard let (count, _) = Self.line(in: bytes[...], at: at), count > 0 else { return after }
            var position = after
            for _ in 0..<count {
                guard let next = end(ofValueAt: position) else { return nil }
                position = next
            }
            return position
        default: return after
        }
    }

    /// The number in the line that begins at `at`, and where the next line begins.
    private static func line(in bytes: ArraySlice<UInt8>, at: Int) -> (number: Int, next: Int)? {
        guard at < bytes.endIndex, let end = bytes[at...].firstIndex(of: UInt8(ascii: "\n")), end > at + 1 else {
            return nil
        }
        guard let number = Int(String(decoding: bytes[(at + 1)..<(end - 1)], as: UTF8.self)) else { return nil }
        return (number, end + 1)
    }
}
