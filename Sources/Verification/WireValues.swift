import ServiceRuntime

/// Reading what stores write: the same integer comes as a number or as a string, depending on field, age and endpoint.
///
/// Google sends int64 as strings and some int32 too; verifyReceipt sends almost everything as strings; both documented
/// and seen forms are accepted, everything else throws and parks the purchase. `null` counts as absent.
extension JSONView {
    /// Digits of the longest Int64 with its sign.
    private static let integerTextBytesMax = 20

    /// An integer member written as a number or as decimal text; nil when absent.
    func wireInteger(_ key: String) throws(JSONError) -> Int64? {
        guard let member = try optional(key) else { return nil }
        switch member.kind {
        case .integer:
            return try member.int64()
        case .string:
            let text = try member.string(maxBytes: Self.integerTextBytesMax)
            guard let value = Int64(text), text.utf8.first != UInt8(ascii: "+") else {
                throw member.error("must be a decimal integer")
            }
            return value
        default:
            throw member.error("must be an integer or its decimal text")
        }
    }

    /// A time in milliseconds; StoreKit's test objects write fractions, which are cut off.
    func wireMilliseconds(_ key: String) throws(JSONError) -> Int64? {
        guard let member = try optional(key), member.kind == .real else { return try wireInteger(key) }
        let value = try member.double()
        // 2^53: beyond it a double no longer tells neighbouring milliseconds apart.
        guard value.magnitude < 9_007_199_254_740_992 else { throw member.error("must be a time in milliseconds") }
        return Int64(value)
    }

    /// An id that may be written as a number (verifyReceipt does so now and then); nil when absent.
    func wireIdentifier(_ key: String, maxBytes: Int = 256) throws(JSONError) -> String? {
        guard let member = try optional(key) else { return nil }
        if member.kind == .integer { return String(try member.int64()) }
        return try member.string(maxBytes: maxBytes)
    }

    /// A flag written as true/false, 1/0, or the text of either; nil when absent.
    func wireFlag(_ key: String) throws(JSONError) -> Bool? {
        guard let member = try optional(key) else { return nil }
        switch member.kind {
        case .bool:
            return try member.bool()
        case .integer:
            return try member.int64(in: 0...1) == 1
        default:
            switch try member.string(maxBytes: 5) {
            case "1", "true": return true
            case "0", "false": return false
            default: throw member.error("must be true or false")
            }
        }
    }

    /// Text that is only kept for the record: nil when it is absent or not usable text.
    func wireNote(_ key: String, maxBytes: Int = 128) -> String? {
        guard let member = self[key], member.kind == .string else { return nil }
        return try? member.string(maxBytes: maxBytes)
    }
}
