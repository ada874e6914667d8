import CMicrohttpd
import Glibc
public import ServiceRuntime

/// A request as the server received it, complete with its body.
///
/// Headers are looked up in libmicrohttpd's memory when asked for, not copied; after the answer was sent they are gone.
@LoopActor
public final class IncomingRequest {
    enum Phase {
        case receiving
        case handling
        case answering
        case over
    }

    /// The method as sent.
    public let method: HTTPMethod
    /// The path as sent, still percent-encoded, without the query.
    public let path: String
    /// The decoded segments that stand where the route's pattern has parameters.
    public internal(set) var pathParameters: [String: String] = [:]
    /// The whole body.
    public internal(set) var body: [UInt8] = []
    /// True once the client was seen to have closed its side; best effort, looked at twice a second while awaiting.
    public internal(set) var clientIsGone = false

    private var query: [String: String] = [:]
    private let testHeaders: [(String, String)]

    /// libmicrohttpd's connection, valid until the request is over.
    var handle: OpaquePointer?
    /// Cleared when the request is over, which ends the cycle with the connection's reference to its request.
    var connection: ServerConnection?
    var phase = Phase.receiving
    var match: Router.Match?
    var bodyBytesMax = 0
    var excessBytes = 0
    /// The answer, once there is one.
    var response: OutgoingResponse?
    var task: Task<Void, Never>?
    /// True while the handler runs inside libmicrohttpd's call: an answer given now needs no resuming.
    var isStarting = false
    var startedAt = MonotonicInstant.now

    init(method: HTTPMethod, path: String, handle: OpaquePointer?) {
        self.method = method
        self.path = path
        self.handle = handle
        testHeaders = []
    }

    /// Makes a request that came over no socket, for tests of handlers.
    public init(
        _ method: HTTPMethod, _ path: String, query: [String: String] = [:], headers: [(String, String)] = [],
        pathParameters: [String: String] = [:], body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.pathParameters = pathParameters
        self.body = body
        testHeaders = headers
    }

    /// The first value of a header; the name's case does not matter.
    ///
    /// Bytes that are not UTF-8 are replaced, so compare with care and never trust a replaced value.
    public func header(_ name: String) -> String? {
        guard let handle else {
            let name = name.lowercased()
            return testHeaders.first { $0.0.lowercased() == name }?.1
        }
        return MHD_lookup_connection_value(handle, .HEADER_KIND, name).map { String(cString: $0) }
    }

    /// The decoded value of a query parameter; nil when it is absent, empty when it has no value.
    ///
    /// A query that cannot be decoded, or that names a parameter twice, was answered with 400 before any handler ran.
    public func query(_ name: String) -> String? { query[name] }

    /// Decodes the query.
    func readQuery() -> Problem? {
        guard let handle, MHD_get_connection_values(handle, .GET_ARGUMENT_KIND, nil, nil) > 0 else { return nil }
        let reader = QueryReader()
        MHD_get_connection_values(
            handle, .GET_ARGUMENT_KIND,
            { owner, _, name, value in
                guard let owner, let name else { return .NO }
                return Unmanaged<QueryReader>.fromOpaque(owner).takeUnretainedValue().take(name, value) ? .YES : .NO
            }, Unmanaged.passUnretained(reader).toOpaque())
        if let mistake = reader.mistake { return .badRequest(mistake) }
        query = reader.values
        return nil
    }
}

/// Collects the parameters of one query.
private final class QueryReader {
    static let parametersMax = 32
    var values: [String: String] = [:]
    var mistake: String?

    func take(_ name: UnsafePointer<CChar>, _ value: UnsafePointer<CChar>?) -> Bool {
        func decoded(_ text: UnsafePointer<CChar>) -> String? {
            PercentCoding.decode(UnsafeRawBufferPointer(start: text, count: strlen(text)))
        }
        guard values.count < Self.parametersMax else {
            mistake = "The query has more than \(Self.parametersMax) parameters."
            return false
        }
        guard let name = decoded(name), let value = value.map(decoded) ?? "" else {
            mistake = "The query is not valid percent-encoded UTF-8."
            return false
        }
        guard values.updateValue(value, forKey: name) == nil else {
            mistake = "The query names a parameter twice."
            return false
        }
        return true
    }
}
