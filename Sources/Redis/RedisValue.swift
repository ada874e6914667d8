import CHiredis

/// One reply of the server, or one element of an array reply (RESP2).
public enum RedisValue: Sendable, Equatable {
    /// A missing value: a nil bulk string or a nil array.
    case null
    /// A signed 64-bit integer.
    case integer(Int64)
    /// A bulk string or a status such as `OK`: any bytes.
    case string([UInt8])
    /// An array; hiredis refuses more than seven levels of nesting (see ``RedisError/Kind-swift.enum/protocolError``).
    case array([RedisValue])
    /// An error *inside* an array; the error that is a whole reply is thrown instead.
    case error(RedisError)
}

extension RedisValue {
    /// The integer, also when the server sent it as a decimal text, as hash fields and scripts do.
    public var int: Int64? {
        switch self {
        case .integer(let number): number
        case .string(let bytes): Int64(String(decoding: bytes, as: UTF8.self))
        default: nil
        }
    }

    /// The string's bytes.
    public var bytes: [UInt8]? {
        if case .string(let bytes) = self { bytes } else { nil }
    }

    /// The string, when it is valid UTF-8.
    public var text: String? {
        if case .string(let bytes) = self { String(validating: bytes, as: UTF8.self) } else { nil }
    }

    /// The array's elements.
    public var elements: [RedisValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// True for ``null``.
    public var isNull: Bool { self == .null }

    private static let ok = RedisValue.string(Array("OK".utf8))

    /// Copies a reply out of hiredis' memory; the caller frees `reply` right after.
    init(copying reply: UnsafeMutablePointer<redisReply>) {
        switch reply.pointee.type {
        case REDIS_REPLY_INTEGER:
            self = .integer(reply.pointee.integer)
        case REDIS_REPLY_STATUS where reply.pointee.len == 2 && Self.isOK(reply.pointee.str):
            self = Self.ok
        case REDIS_REPLY_STRING, REDIS_REPLY_STATUS:
            self = .string(Array(UnsafeRawBufferPointer(start: reply.pointee.str, count: reply.pointee.len)))
        case REDIS_REPLY_ARRAY:
            let elements = UnsafeBufferPointer(start: reply.pointee.element, count: reply.pointee.elements)
            self = .array(elements.map { element in element.map { RedisValue(copying: $0) } ?? .null })
        case REDIS_REPLY_ERROR:
            let text = UnsafeRawBufferPointer(start: reply.pointee.str, count: reply.pointee.len)
            self = .error(RedisError(reply: String(decoding: text, as: UTF8.self)))
        default:
            self = .null
        }
    }

    private static func isOK(_ text: UnsafeMutablePointer<CChar>?) -> Bool {
        guard let text else { return false }
        return text[0] == CChar(bitPattern: UInt8(ascii: "O")) && text[1] == CChar(bitPattern: UInt8(ascii: "K"))
    }
}

/// One argument of a command: a name, a key, a value; any bytes are allowed.
public enum RedisArgument: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByStringInterpolation,
    ExpressibleByIntegerLiteral
{
    /// Text, sent as UTF-8.
    case string(String)
    /// Bytes as they are.
    case bytes([UInt8])
    /// A number, sent in decimal.
    case int(Int64)

    /// A literal text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A literal number.
    public init(integerLiteral value: Int64) { self = .int(value) }
}
