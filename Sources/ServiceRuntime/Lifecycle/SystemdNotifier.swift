import Glibc

/// Tells systemd how far a `Type=notify` service is: one datagram to the socket named in `NOTIFY_SOCKET`.
///
/// The protocol is stable and small (see sd_notify(3)), so libsystemd is not needed. Without the variable, or when
/// systemd does not listen, nothing happens: to be supervised is not a condition for running.
public struct SystemdNotifier: Sendable {
    private let socketPath: String?

    /// Makes a notifier for the socket at `socketPath` (`@name` is an abstract one); nil makes one that does nothing.
    public init(socketPath: String?) {
        self.socketPath = socketPath
    }

    /// Makes one from `NOTIFY_SOCKET` of this process.
    public static func fromEnvironment() -> SystemdNotifier {
        SystemdNotifier(socketPath: getenv("NOTIFY_SOCKET").map { String(cString: $0) })
    }

    /// Everything is started and answers.
    public func ready() { send("READY=1") }

    /// The service begins to stop.
    public func stopping() { send("STOPPING=1") }

    /// One line for `systemctl status`.
    public func status(_ text: StaticString) { send("STATUS=\(text)") }

    private func send(_ message: String) {
        guard let socketPath, let address = Self.address(of: socketPath) else { return }
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(message.utf8)
        var (value, length) = address
        withUnsafePointer(to: &value) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                // Nothing can be done about a failure, and it does not matter to the service.
                _ = sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), generic, length)
            }
        }
    }

    private static func address(of path: String) -> (sockaddr_un, socklen_t)? {
        var bytes = Array(path.utf8)
        var address = sockaddr_un()
        guard bytes.count > 1, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        // An abstract address starts with NUL, which the variable writes as "@"; its length counts.
        if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 } else if bytes[0] != UInt8(ascii: "/") { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let pathOffset = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2
        return (address, socklen_t(pathOffset + bytes.count))
    }
}
