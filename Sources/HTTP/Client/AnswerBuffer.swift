import CCurl

/// Collects one answer while libcurl receives it.
///
/// Not bound to the loop: only libcurl's callbacks write to it, inside calls that the loop makes, and the owning
/// ``Transfer`` reads it when none of them is running.
final class AnswerBuffer {
    /// More than any store sends, far less than a hostile server could.
    static let headerBytesMax = 64 << 10

    private(set) var headerLines: [UInt8] = []
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false
    private var bodyBytesMax = 0

    func begin(bodyBytesMax: Int) {
        self.bodyBytesMax = bodyBytesMax
        isTooLarge = false
    }

    /// Hands the received parts over and is empty again.
    func take() -> (headerLines: [UInt8], body: [UInt8]) {
        let taken = (headerLines, body)
        headerLines = []
        body = []
        return taken
    }

    /// - Returns: How many bytes were taken; fewer than given lets libcurl end the transfer.
    private func append(body bytes: UnsafeRawBufferPointer) -> Int {
        guard body.count + bytes.count <= bodyBytesMax else {
            isTooLarge = true
            return 0
        }
        body.append(contentsOf: bytes)
        return bytes.count
    }

    private func append(header bytes: UnsafeRawBufferPointer) -> Int {
        // A status line begins a new block: what was before belonged to an interim answer such as 100.
        if bytes.starts(with: "HTTP/".utf8) {
            headerLines.removeAll(keepingCapacity: true)
            headerLines.reserveCapacity(256)
            return bytes.count
        }
        guard headerLines.count + bytes.count <= Self.headerBytesMax else {
            isTooLarge = true
            return 0
        }
        headerLines.append(contentsOf: bytes)
        return bytes.count
    }

    static let receiveBody: curl_write_callback = { bytes, size, count, owner in
        guard let bytes, let owner else { return 0 }
        let buffer = Unmanaged<AnswerBuffer>.fromOpaque(owner).takeUnretainedValue()
        return buffer.append(body: UnsafeRawBufferPointer(start: bytes, count: size * count))
    }

    static let receiveHeader: curl_write_callback = { bytes, size, count, owner in
        guard let bytes, let owner else { return 0 }
        let buffer = Unmanaged<AnswerBuffer>.fromOpaque(owner).takeUnretainedValue()
        return buffer.append(header: UnsafeRawBufferPointer(start: bytes, count: size * count))
    }
}
