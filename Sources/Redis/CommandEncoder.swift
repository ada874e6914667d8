/// Writes one command in the protocol's form: an array of bulk strings (RESP specification).
///
/// One buffer, used again for every command of a connection, instead of hiredis' `redisFormatCommandArgv`, which wants
/// an array of pointers and allocates each time.
struct CommandEncoder {
    /// Capacity kept between two commands; a rare huge one gives its memory back.
    static let keptBytesMax = 1 << 18

    private(set) var bytes: [UInt8] = []

    init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    mutating func begin(argumentCount: Int) {
        if bytes.capacity > Self.keptBytesMax { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        header(UInt8(ascii: "*"), argumentCount)
    }

    mutating func encode(_ arguments: [RedisArgument]) {
        begin(argumentCount: arguments.count)
        append(contentsOf: arguments)
    }

    mutating func append(contentsOf arguments: [RedisArgument]) {
        for argument in arguments { append(argument) }
    }

    mutating func append(_ argument: RedisArgument) {
        switch argument {
        case .bytes(let value):
            append(value)
        case .string(let value):
            value.utf8Span.span.withUnsafeBytes { append(buffer: $0) }
        case .int(let value):
            withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
                let start = Self.decimal(value.magnitude, negative: value < 0, into: digits)
                append(buffer: UnsafeRawBufferPointer(rebasing: digits[start...]))
            }
        }
    }

    mutating func append(_ value: [UInt8]) {
        value.withUnsafeBytes { append(buffer: $0) }
    }

    private mutating func append(buffer: UnsafeRawBufferPointer) {
        header(UInt8(ascii: "$"), buffer.count)
        bytes.append(contentsOf: buffer)
        bytes.append(UInt8(ascii: "\r"))
        bytes.append(UInt8(ascii: "\n"))
    }

    private mutating func header(_ mark: UInt8, _ count: Int) {
        bytes.append(mark)
        withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
            let start = Self.decimal(UInt64(count), negative: false, into: digits)
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: digits[start...]))
        }
        bytes.append(UInt8(ascii: "\r"))
        bytes.append(UInt8(ascii: "\n"))
    }

    /// Writes decimal digits at the end of `digits` (20 bytes hold every Int64) and returns where they start.
    private static func decimal(_ value: UInt64, negative: Bool, into digits: UnsafeMutableRawBufferPointer) -> Int {
        var rest = value
        var index = digits.count
        repeat {
            index -= 1
            digits[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest > 0
        if negative {
            index -= 1
            digits[index] = UInt8(ascii: "-")
        }
        return index
    }
}

/// The keys and arguments of one EVALSHA in the protocol's form, written down call by call by ``BatchedScript``.
///
/// Kept as bytes and not as a list of arguments: the list would hold on to every text of a batch until the batch leaves.
struct ScriptParts {
    private(set) var keyCount = 0
    private(set) var argumentCount = 0
    private(set) var keys: CommandEncoder
    private(set) var arguments: CommandEncoder

    /// Makes empty ones with room for as much as `previous` holds: one batch is like the next.
    init(like previous: borrowing ScriptParts) {
        keys = CommandEncoder(capacity: min(previous.keys.bytes.count, CommandEncoder.keptBytesMax))
        arguments = CommandEncoder(capacity: min(previous.arguments.bytes.count, CommandEncoder.keptBytesMax))
    }

    init() {
        keys = CommandEncoder()
        arguments = CommandEncoder()
    }

    mutating func append(keys more: [RedisArgument], arguments others: [RedisArgument]) {
        keyCount += more.count
        argumentCount += others.count
        keys.append(contentsOf: more)
        arguments.append(contentsOf: others)
    }
}
