/// A request to another server, as ``HTTPClient/send(_:)`` takes it.
public struct OutgoingRequest: Sendable {
    /// The method.
    public var method: HTTPMethod
    /// An absolute `http` or `https` URL; parts that come from outside must be percent-encoded already.
    public var url: String
    /// Header names and values, without line breaks.
    ///
    /// Requests with an equal list share one built copy of it.
    public var headers: [(String, String)]
    /// The body; nil for none.
    public var body: [UInt8]?
    /// From the call of `send` to the last byte of the answer, waiting for a free connection included.
    public var deadline: Duration
    /// The answer is given up as soon as its body grows over this.
    public var answerBytesMax: Int

    /// Describes a request.
    public init(
        _ method: HTTPMethod, _ url: String, headers: [(String, String)] = [], body: [UInt8]? = nil,
        deadline: Duration = .seconds(15), answerBytesMax: Int = 1 << 20
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.deadline = deadline
        self.answerBytesMax = answerBytesMax
    }
}

/// What a server answered, whatever the status: redirects too are only reported, never followed.
public struct HTTPAnswer: Sendable {
    /// The status code, 200...599.
    public let status: Int
    /// The whole body.
    public let body: [UInt8]
    /// The header block as received, one line after the other; looked at only when somebody asks.
    let headerLines: [UInt8]

    /// Makes an answer, for tests of code that reads answers.
    public init(status: Int, headers: [(String, String)] = [], body: [UInt8]) {
        self.status = status
        self.body = body
        headerLines = headers.flatMap { Array("\($0.0): \($0.1)\r\n".utf8) }
    }

    init(status: Int, headerLines: [UInt8], body: [UInt8]) {
        self.status = status
        self.body = body
        self.headerLines = headerLines
    }

    /// The first value of a header; the name's case does not matter.
    ///
    /// - Returns: The value without the white space around it; nil when the header is absent.
    public func header(_ name: String) -> String? {
        let name = Array(name.utf8)
        for line in headerLines.split(separator: UInt8(ascii: "\n")) {
            guard line.count > name.count, line[line.startIndex + name.count] == UInt8(ascii: ":"),
                zip(line, name).allSatisfy({ $0.lowercasedASCII == $1.lowercasedASCII })
            else { continue }
            let value = line.dropFirst(name.count + 1)
            let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
            guard let first = value.firstIndex(where: { !isSpace($0) }),
                let last = value.lastIndex(where: { !isSpace($0) })
            else { return "" }
            return String(decoding: value[first...last], as: UTF8.self)
        }
        return nil
    }
}

extension UInt8 {
    /// The lower-case form of an ASCII letter, anything else unchanged.
    var lowercasedASCII: UInt8 {
        self >= UInt8(ascii: "A") && self <= UInt8(ascii: "Z") ? self | 0x20 : self
    }
}
