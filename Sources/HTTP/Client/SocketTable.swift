import CCurl
import Glibc
import ServiceRuntime

/// The sockets of all connections of a client, by descriptor, and their watches on the loop.
///
/// libcurl asks to watch a socket when a request starts and to forget it when the request ends. Following it to the
/// letter would cost four system calls per request (libuv changes a watch by removing and adding it), so an idle
/// connection stays watched for reading: the next request finds its watch in place. The watch really ends before the
/// socket is closed, or when an idle connection becomes readable, which means that the server closed it.
@LoopActor
final class SocketTable {
    private var sockets: [CurlSocket?] = []

    /// libcurl made or wants to watch `descriptor` otherwise than before.
    func watch(_ descriptor: Int32, _ wanted: IOEvents, for shard: CurlShard) {
        let socket = self[descriptor] ?? add(descriptor, isConnection: false)
        socket.want(wanted, for: shard)
    }

    /// libcurl wants to hear nothing about `descriptor` for now.
    func forget(_ descriptor: Int32) {
        guard let socket = self[descriptor] else { return }
        guard socket.isConnection, socket.isWatchedForReadingOnly else {
            // libcurl closes some descriptors without `closeSocket`: the resolver's wake-up pair, and a socket whose
            // connecting was given up. This is the last that is heard of them (they may be closed already), and a
            // watch left behind would be on whatever gets the number next. A socket that is being connected is
            // watched for writing, which tells it from an idle connection.
            socket.end()
            sockets[Int(descriptor)] = nil
            return
        }
        socket.rest()
    }

    private subscript(_ descriptor: Int32) -> CurlSocket? {
        let index = Int(descriptor)
        return index >= 0 && index < sockets.count ? sockets[index] : nil
    }

    @discardableResult
    private func add(_ descriptor: Int32, isConnection: Bool) -> CurlSocket {
        let index = Int(descriptor)
        if index >= sockets.count {
            sockets.append(contentsOf: repeatElement(nil, count: index + 64 - sockets.count))
        }
        sockets[index]?.end()
        let socket = CurlSocket(descriptor, isConnection: isConnection)
        sockets[index] = socket
        return socket
    }

    private func open(family: Int32, type: Int32, protocol number: Int32) -> Int32 {
        let descriptor = socket(family, type | teller_socket_flags(), number)
        if descriptor >= 0 { add(descriptor, isConnection: true) }
        return descriptor
    }

    private func close(_ descriptor: Int32) {
        if let socket = self[descriptor] {
            socket.end()
            sockets[Int(descriptor)] = nil
        }
        Glibc.close(descriptor)
    }

    static let openSocket: curl_opensocket_callback = { owner, _, address in
        guard let owner, let address = address?.pointee else { return -1 }
        let table = Unmanaged<SocketTable>.fromOpaque(owner).takeUnretainedValue()
        let (family, type, number) = (address.family, address.socktype, address.protocol)
        return LoopActor.assumeIsolated { table.open(family: family, type: type, protocol: number) }
    }

    static let closeSocket: curl_closesocket_callback = { owner, descriptor in
        guard let owner else { return 1 }
        let table = Unmanaged<SocketTable>.fromOpaque(owner).takeUnretainedValue()
        LoopActor.assumeIsolated { table.close(descriptor) }
        return 0
    }
}

/// One watched socket.
@LoopActor
private final class CurlSocket {
    let isConnection: Bool
    private let descriptor: Int32
    private var shard: CurlShard?
    /// What libcurl waits for; empty while the connection is idle.
    private var wanted: IOEvents = []
    /// What the loop watches for: at least `wanted`.
    private var watched: IOEvents = []
    private var watch: IOWatch?

    init(_ descriptor: Int32, isConnection: Bool) {
        self.descriptor = descriptor
        self.isConnection = isConnection
    }

    func want(_ events: IOEvents, for shard: CurlShard) {
        self.shard = shard
        wanted = events
        // Watching for writing must end when it is no longer wanted: a socket is nearly always writable.
        if watch != nil, watched.isSuperset(of: events), !watched.contains(.writable) || events.contains(.writable) {
            return
        }
        arm(events)
    }

    var isWatchedForReadingOnly: Bool { watch == nil ? false : watched == .readable }

    /// The connection is idle; its watch stays.
    func rest() { wanted = [] }

    func end() {
        watch?.stop()
        watch = nil
        watched = []
        wanted = []
        shard = nil
    }

    private func arm(_ events: IOEvents) {
        watched = events
        if let watch {
            watch.update(events)
            return
        }
        // Without a watch the transfer still ends at its deadline; the descriptor is libcurl's and valid, so only
        // memory or descriptor exhaustion can bring us here.
        watch = try? EventLoop.shared.watch(fd: descriptor, events) { [unowned self] in self.happened($0) }
    }

    private func happened(_ events: IOEvents) {
        if !watched.isSuperset(of: events) {
            // An error of the descriptor, on which libuv ends its watch; libcurl will meet it and close the socket.
            watch?.stop()
            watch = nil
            watched = []
        }
        let useful = events.intersection(wanted)
        guard !useful.isEmpty, let shard else {
            narrow()
            return
        }
        shard.act(descriptor, useful)
        if watch == nil, !wanted.isEmpty { arm(wanted) }
    }

    /// Something happened that nobody waits for: stop hearing it.
    private func narrow() {
        if wanted.isEmpty {
            watch?.stop()
            watch = nil
            watched = []
        } else {
            arm(wanted)
        }
    }
}
