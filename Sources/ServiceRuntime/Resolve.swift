import CUV
import Glibc

/// An address that a socket can connect to without asking DNS.
public struct SocketAddress: Sendable, Equatable {
    /// Dotted IPv4 or colon-separated IPv6, without brackets.
    public let numericHost: String
    /// TCP port.
    public let port: Int
    /// True for IPv6.
    public let isIPv6: Bool

    /// Makes an address from its parts.
    public init(numericHost: String, port: Int, isIPv6: Bool) {
        self.numericHost = numericHost
        self.port = port
        self.isIPv6 = isIPv6
    }
}

extension EventLoop {
    /// Resolves a host name (RFC 3493 `getaddrinfo`) on a library thread, so that the loop goes on meanwhile.
    ///
    /// - Returns: At least one address, in the resolver's order of preference.
    /// - Throws: ``LoopError`` with libuv's text, such as "uv_getaddrinfo: unknown node or service".
    @LoopActor
    public func resolve(host: String, port: Int) async throws(LoopError) -> [SocketAddress] {
        let request = ResolveRequest()
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        let failed = uv_getaddrinfo(uv, request.handle, { ResolveRequest.finished($0, $1, $2) }, host, nil, &hints)
        guard failed == 0 else {
            request.handle.deallocate()
            throw LoopError(code: failed, call: "uv_getaddrinfo")
        }
        request.handle.pointee.data = Unmanaged.passRetained(request).toOpaque()
        switch await request.completion.wait() {
        case .success(let hosts):
            return hosts.map { SocketAddress(numericHost: $0.name, port: port, isIPv6: $0.isIPv6) }
        case .failure(let error): throw error
        }
    }
}

@LoopActor
private final class ResolveRequest {
    let handle = UnsafeMutablePointer<uv_getaddrinfo_t>.allocate(capacity: 1)
    let completion = Completion<Result<[(name: String, isIPv6: Bool)], LoopError>>()

    nonisolated static func finished(
        _ handle: UnsafeMutablePointer<uv_getaddrinfo_t>?, _ status: Int32, _ list: UnsafeMutablePointer<addrinfo>?
    ) {
        guard let handle, let data = handle.pointee.data else { return }
        let hosts = status == 0 ? numericHosts(list) : []
        uv_freeaddrinfo(list)
        handle.deallocate()
        let request = Unmanaged<ResolveRequest>.fromOpaque(data).takeRetainedValue()
        LoopActor.assumeIsolated {
            let code = status == 0 ? UV_EAI_NONAME.rawValue : status
            request.completion.complete(
                hosts.isEmpty ? .failure(LoopError(code: code, call: "uv_getaddrinfo")) : .success(hosts))
        }
    }

    private nonisolated static func numericHosts(
        _ list: UnsafeMutablePointer<addrinfo>?
    ) -> [(name: String, isIPv6: Bool)] {
        var hosts: [(name: String, isIPv6: Bool)] = []
        var next = list
        while let entry = next?.pointee {
            next = entry.ai_next
            guard entry.ai_family == AF_INET || entry.ai_family == AF_INET6 else { continue }
            let name = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { buffer -> String? in
                let failed = getnameinfo(
                    entry.ai_addr, entry.ai_addrlen, buffer.baseAddress, socklen_t(buffer.count), nil, 0,
                    NI_NUMERICHOST)
                guard failed == 0, let base = buffer.baseAddress else { return nil }
                return String(cString: base)
            }
            if let name { hosts.append((name, entry.ai_family == AF_INET6)) }
        }
        return hosts
    }
}
