import CCurl
import Glibc

/// Scheme and authority of a URL, parsed once by libcurl and used by all requests to the same server.
///
/// libcurl parses a URL byte by byte, several times per request, and a store's URLs are long: they hold a purchase
/// token. So libcurl gets the short origin as a parsed handle, and the rest of the URL as `CURLOPT_REQUEST_TARGET`.
/// Since only libcurl parses the authority, nobody can disagree with it about which host is meant.
final class Origin {
    let text: [UInt8]
    let url: String
    let handle: OpaquePointer
    let isSecure: Bool

    init?(_ text: ArraySlice<UInt8>) {
        let url = String(decoding: text, as: UTF8.self)
        let scheme = url.prefix { $0 != ":" }.lowercased()
        guard scheme == "http" || scheme == "https", let handle = curl_url() else { return nil }
        guard curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK else {
            curl_url_cleanup(handle)
            return nil
        }
        self.text = Array(text)
        self.url = url
        self.handle = handle
        isSecure = scheme == "https"
    }

    deinit { curl_url_cleanup(handle) }
}

/// The origins used last; a server that is not among them is only parsed again.
struct OriginCache {
    static let originsMax = 16
    private var origins: [Origin] = []
    private var oldest = 0

    /// Divides a URL into its origin and the request target (RFC 9112 §3.2.1: path and query).
    ///
    /// - Returns: nil when it is not an absolute URL, or when the rest could break out of the request line.
    mutating func divide(_ url: String) -> (origin: Origin, target: String)? {
        var url = url
        return url.withUTF8 { bytes in
            guard let (end, stop) = Self.parts(of: bytes), let origin = origin(bytes[..<end]) else { return nil }
            guard end < stop else { return (origin, "/") }
            let rest = String(decoding: bytes[end..<stop], as: UTF8.self)
            return (origin, bytes[end] == UInt8(ascii: "?") ? "/" + rest : rest)
        }
    }

    /// Where the origin and where path and query end; a fragment is never sent.
    private static func parts(of bytes: UnsafeBufferPointer<UInt8>) -> (end: Int, stop: Int)? {
        guard let colon = bytes.prefix(8).firstIndex(of: UInt8(ascii: ":")), bytes.count > colon + 3,
            bytes[colon + 1] == UInt8(ascii: "/"), bytes[colon + 2] == UInt8(ascii: "/")
        else { return nil }
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return nil }
        let end = bytes[(colon + 3)...].firstIndex(where: isEndOfAuthority) ?? bytes.count
        guard let start = bytes.baseAddress else { return nil }
        let fragment = memchr(start + end, Int32(UInt8(ascii: "#")), bytes.count - end)
        return (end, fragment.map { UnsafePointer($0.assumingMemoryBound(to: UInt8.self)) - start } ?? bytes.count)
    }

    private static func isEndOfAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }

    private mutating func origin(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Origin? {
        for known in origins where known.text.count == text.count && known.text.elementsEqual(text) { return known }
        guard let made = Origin(ArraySlice(text)) else { return nil }
        if origins.count < Self.originsMax {
            origins.append(made)
        } else {
            origins[oldest] = made
            oldest = (oldest + 1) % Self.originsMax
        }
        return made
    }
}
