import CMicrohttpd
import Glibc
import ServiceRuntime

/// Why a server cannot listen.
public struct ListenError: Error, Sendable, CustomStringConvertible {
    /// Where it was to listen.
    public let host: String
    /// The port asked for.
    public let port: Int
    /// The system's text for the failed call.
    public let reason: String

    /// For example "cannot listen on 127.0.0.1:80: bind: Permission denied".
    public var description: String { "cannot listen on \(host):\(port): \(reason)" }
}

/// Makes the socket that a server accepts connections on.
enum ListeningSocket {
    /// Connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
    static let backlog: Int32 = 4096

    /// Opens, binds and listens.
    ///
    /// - Parameters:
    ///   - host: A numeric address, or "localhost".
    ///   - port: 0 lets the system choose.
    ///   - reusePort: Lets several processes listen on one port (`SO_REUSEPORT`), the kernel spreading connections.
    /// - Returns: The descriptor and the port it got.
    /// - Throws: ``ListenError`` with the call that failed.
    static func open(host: String, port: Int, reusePort: Bool) throws(ListenError) -> (descriptor: Int32, port: Int) {
        func failure(_ call: String) -> ListenError {
            ListenError(host: host, port: port, reason: "\(call): \(String(cString: strerror(errno)))")
        }
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST
        hints.ai_protocol = Int32(IPPROTO_TCP)
        var list: UnsafeMutablePointer<addrinfo>?
        let numeric = host == "localhost" ? "127.0.0.1" : host
        let failed = getaddrinfo(numeric, String(port), &hints, &list)
        guard failed == 0, let address = list?.pointee else {
            throw ListenError(host: host, port: port, reason: String(cString: gai_strerror(failed)))
        }
        defer { freeaddrinfo(list) }
        let type = teller_listening_socket_type()
        let descriptor = socket(address.ai_family, type, address.ai_protocol)
        guard descriptor >= 0 else { throw failure("socket") }
        set(descriptor, SOL_SOCKET, SO_REUSEADDR)
        if reusePort { set(descriptor, SOL_SOCKET, SO_REUSEPORT) }
        guard bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 else {
            let error = failure("bind")
            close(descriptor)
            throw error
        }
        guard listen(descriptor, backlog) == 0 else {
            let error = failure("listen")
            close(descriptor)
            throw error
        }
        return (descriptor, boundPort(descriptor) ?? port)
    }

    static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32) {
        var one: Int32 = 1
        setsockopt(descriptor, level, option, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    private static func boundPort(_ descriptor: Int32) -> Int? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &storage) { bytes -> Int? in
            guard let base = bytes.baseAddress,
                getsockname(descriptor, base.assumingMemoryBound(to: sockaddr.self), &length) == 0
            else { return nil }
            // The port is at the same place in sockaddr_in and sockaddr_in6: after the family, in network order.
            return Int(bytes[2]) << 8 | Int(bytes[3])
        }
    }
}
