import CMicrohttpd

/// Makes libmicrohttpd's form of a response.
enum MHDResponse {
    /// - Returns: An owned response, to be released with `MHD_destroy_response`; nil without memory.
    static func make(_ response: OutgoingResponse, closing: Bool) -> OpaquePointer? {
        let made: OpaquePointer?
        if case .truncated(let bytes) = response.fault {
            made = truncated(response.body, afterBytes: bytes)
        } else {
            made = response.body.withUnsafeBytes { bytes in
                // Copied, hence the cast away from const is safe (MHD_RESPMEM_MUST_COPY).
                MHD_create_response_from_buffer(
                    bytes.count, UnsafeMutableRawPointer(mutating: bytes.baseAddress), .RESPMEM_MUST_COPY)
            }
        }
        guard let made else { return nil }
        for (name, value) in response.headers {
            // Refused by libmicrohttpd when it would break out of its line; the answer then goes without it.
            MHD_add_response_header(made, name, value)
        }
        if closing { MHD_add_response_header(made, "Connection", "close") }
        return made
    }

    /// A body that ends before the length it announced, on which libmicrohttpd closes the connection.
    private static func truncated(_ body: [UInt8], afterBytes: Int) -> OpaquePointer? {
        let part = Unmanaged.passRetained(PartOfBody(Array(body.prefix(afterBytes)))).toOpaque()
        let made = MHD_create_response_from_callback(
            UInt64(max(body.count, afterBytes + 1)), 4096,
            { owner, position, buffer, room in
                guard let owner, let buffer else { return teller_MHD_end_with_error() }
                let body = Unmanaged<PartOfBody>.fromOpaque(owner).takeUnretainedValue().bytes
                guard position < UInt64(body.count) else { return teller_MHD_end_with_error() }
                let rest = body[Int(position)...].prefix(room)
                rest.withUnsafeBytes { bytes in
                    if let base = bytes.baseAddress {
                        UnsafeMutableRawPointer(buffer).copyMemory(from: base, byteCount: bytes.count)
                    }
                }
                return rest.count
            }, part,
            { owner in
                if let owner { Unmanaged<PartOfBody>.fromOpaque(owner).release() }
            })
        if made == nil { Unmanaged<PartOfBody>.fromOpaque(part).release() }
        return made
    }
}

private final class PartOfBody {
    let bytes: [UInt8]
    init(_ bytes: [UInt8]) { self.bytes = bytes }
}
