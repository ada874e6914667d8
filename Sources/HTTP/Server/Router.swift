public import ServiceRuntime

/// Answers one request; runs on the loop, and the connection rests while it awaits.
///
/// The task is cancelled when the client is seen to have gone, and when a stopping server's patience ends.
public typealias Handler = @LoopActor @Sendable (IncomingRequest) async -> OutgoingResponse

/// Finds the handler of a request by method and path.
///
/// Paths are compared segment by segment after strict percent-decoding, so an encoded slash is part of a segment's
/// data. A path that cannot be decoded, or with "." or ".." as a segment, is answered with 400 and reaches no handler.
/// `HEAD` is served by the handler of `GET`; the server leaves the body out.
@LoopActor
public final class Router {
    struct Route {
        let pattern: PathPattern
        let method: HTTPMethod
        let bodyBytesMax: Int?
        let handler: Handler
    }

    enum Match {
        case route(Route, pathParameters: [String: String])
        case problem(Problem)
    }

    private var routes: [Route] = []
    /// Indices into `routes` of those whose pattern has no parameter, by path.
    private var fixed: [String: [Int]] = [:]
    private var fallback: Handler?

    /// Writes further members into the problems that reach no handler, such as a bad query or a body over the limit, so
    /// that they look like those of the handlers; gets their `reason`.
    public var problemMembers: (@LoopActor (String, inout JSONWriter) -> Void)?

    /// Makes a router without routes.
    public init() {}

    /// Adds a route.
    ///
    /// - Parameters:
    ///   - method: The method.
    ///   - pattern: Such as "/shop/purchases/{submissionId}"; a parameter is a whole segment.
    ///   - bodyBytesMax: Overrides the server's limit.
    ///   - handler: What answers.
    public func on(_ method: HTTPMethod, _ pattern: String, bodyBytesMax: Int? = nil, _ handler: @escaping Handler) {
        let route = Route(
            pattern: PathPattern(pattern), method: method, bodyBytesMax: bodyBytesMax, handler: handler)
        if route.pattern.isFixed { fixed[pattern, default: []].append(routes.count) }
        routes.append(route)
    }

    /// Answers what no route matches, instead of 404.
    public func otherwise(_ handler: @escaping Handler) { fallback = handler }

    /// Finds and runs the handler; what the server does with a request, for those who call a router directly.
    public func handle(_ request: IncomingRequest) async -> OutgoingResponse {
        switch match(request.method, request.path) {
        case .problem(let problem):
            return response(to: problem)
        case .route(let route, let parameters):
            request.pathParameters = parameters
            if let problem = request.readQuery() { return response(to: problem) }
            return await route.handler(request)
        }
    }

    /// The answer with a problem that reached no handler.
    func response(to problem: Problem) -> OutgoingResponse {
        problem.response { problemMembers?(problem.reason, &$0) }
    }

    func match(_ method: HTTPMethod, _ path: String) -> Match {
        let wanted = method == .head ? .get : method
        if let candidates = fixed[path], let index = candidates.first(where: { routes[$0].method == wanted }) {
            return .route(routes[index], pathParameters: [:])
        }
        guard let segments = PathPattern.segments(of: path) else {
            return .problem(.badRequest("The path is not a valid path."))
        }
        var allowed: [String] = []
        for route in routes {
            guard let parameters = route.pattern.match(segments) else { continue }
            if route.method == wanted { return .route(route, pathParameters: parameters) }
            allowed.append(route.method.rawValue)
            if route.method == .get { allowed.append("HEAD") }
        }
        if !allowed.isEmpty { return .problem(.methodNotAllowed(allowed)) }
        if let fallback {
            let route = Route(pattern: PathPattern("/"), method: method, bodyBytesMax: nil, handler: fallback)
            return .route(route, pathParameters: [:])
        }
        return .problem(.notFound)
    }
}

/// A path with parameters in place of some segments.
struct PathPattern {
    private enum Segment {
        case literal(String)
        case parameter(String)
    }

    private let segments: [Segment]

    init(_ pattern: String) {
        precondition(pattern.hasPrefix("/"), "a path pattern begins with a slash")
        segments = pattern.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map { part in
            guard part.hasPrefix("{"), part.hasSuffix("}") else { return .literal(String(part)) }
            return .parameter(String(part.dropFirst().dropLast()))
        }
    }

    var isFixed: Bool {
        segments.allSatisfy { if case .literal = $0 { true } else { false } }
    }

    /// The decoded segments of a path; nil when it must be refused.
    static func segments(of path: String) -> [String]? {
        guard path.utf8.first == UInt8(ascii: "/") else { return nil }
        var segments: [String] = []
        for part in path.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let segment = PercentCoding.decode(part), segment != ".", segment != ".." else { return nil }
            segments.append(segment)
        }
        return segments
    }

    /// - Returns: The parameters by name; nil when the path is another one. A parameter is never empty.
    func match(_ path: [String]) -> [String: String]? {
        guard path.count == segments.count else { return nil }
        var parameters: [String: String] = [:]
        for (segment, text) in zip(segments, path) {
            switch segment {
            case .literal(let literal): guard literal == text else { return nil }
            case .parameter(let name):
                guard !text.isEmpty else { return nil }
                parameters[name] = text
            }
        }
        return parameters
    }
}
