import CCurl

/// The request headers of one header set in the form libcurl wants, kept alive by every transfer that sends them.
final class HeaderList {
    let headers: [(String, String)]
    let list: UnsafeMutablePointer<curl_slist>?

    /// - Returns: nil when a name or value could break out of its line.
    init?(_ headers: [(String, String)]) {
        var list: UnsafeMutablePointer<curl_slist>?
        for (name, value) in headers {
            // curl drops a header written as "Name:", and wants "Name;" for an empty value.
            let line = value.isEmpty ? "\(name);" : "\(name): \(value)"
            guard Self.isToken(name), Self.isFieldValue(value), let longer = curl_slist_append(list, line) else {
                curl_slist_free_all(list)
                return nil
            }
            list = longer
        }
        self.headers = headers
        self.list = list
    }

    deinit { curl_slist_free_all(list) }

    /// RFC 9110 §5.6.2.
    static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// RFC 9110 §5.5: no control characters but the tab, above all no line break and no NUL.
    static func isFieldValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }
}

/// The header lists used last: a worker sends the same few header sets (one access token each) all day long.
struct HeaderListCache {
    static let listsMax = 8
    private var lists: [HeaderList] = []
    private var oldest = 0

    /// - Returns: nil when a header is malformed.
    mutating func list(for headers: [(String, String)]) -> HeaderList? {
        // Strings that share storage compare without looking at their bytes, so a hit costs next to nothing.
        for known in lists where Self.equal(known.headers, headers) { return known }
        guard let made = HeaderList(headers) else { return nil }
        if lists.count < Self.listsMax {
            lists.append(made)
        } else {
            lists[oldest] = made
            oldest = (oldest + 1) % Self.listsMax
        }
        return made
    }

    private static func equal(_ left: [(String, String)], _ right: [(String, String)]) -> Bool {
        guard left.count == right.count else { return false }
        for index in left.indices where left[index] != right[index] { return false }
        return true
    }
}
