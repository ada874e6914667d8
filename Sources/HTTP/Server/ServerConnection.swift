import CMicrohttpd
import Glibc
import ServiceRuntime

/// What the server knows of one client connection, to end those that take too long and to see who has gone.
///
/// libmicrohttpd ends silent connections by itself, but a client that sends a byte now and then is never silent, and a
/// connection whose handler awaits is not looked at at all.
@LoopActor
final class ServerConnection {
    let descriptor: Int32
    /// The place in the server's list.
    var slot = 0
    /// The request that is being received, handled or answered.
    var request: IncomingRequest?
    /// When the present state began: waiting for a request, receiving its body, or sending its answer.
    var since: MonotonicInstant
    /// Requests that were begun here.
    var requests = 0

    init(_ descriptor: Int32, since: MonotonicInstant) {
        self.descriptor = descriptor
        self.since = since
    }

    /// Whether the client has closed its side.
    var isClosedByClient: Bool {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
        if count == 0 { return true }
        return count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR
    }

    /// Takes no more requests: what has arrived is still read, then libmicrohttpd sees the end of the stream.
    func endReading() { shutdown(descriptor, Int32(SHUT_RD)) }

    /// Cuts the connection; libmicrohttpd notices and cleans up.
    func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Makes the close that follows a reset instead of an orderly end.
    func resetOnClose() {
        var lingering = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
    }
}
