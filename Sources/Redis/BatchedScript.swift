public import ServiceRuntime

/// Joins the calls of one script that tasks make in the same turn of the loop into one EVALSHA.
///
/// A thousand receipts in flight then cost the server a few scripts per turn instead of a thousand. The script sees
/// KEYS = shared keys, then each call's keys; ARGV = shared arguments, then each call's arguments; and returns an array
/// with one element per call, in order. An element that is an error (`{err = "…"}`) is that call's error alone; an error of
/// the whole script is every call's.
@LoopActor
public final class BatchedScript {
    private typealias Call = UnsafeContinuation<RedisLink.Reply, Never>

    private let script: RedisScript
    private let connection: RedisConnection
    private let sharedKeys: [RedisArgument]
    private let sharedArguments: [RedisArgument]
    private let keysPerCall: Int
    private let argumentsPerCall: Int
    private let batchMax: Int
    private let isIdempotent: Bool

    private var parts = ScriptParts()
    private var calls: [Call] = []

    /// Binds a script to a connection.
    ///
    /// `batchMax` bounds the calls in one script, since the server does nothing else meanwhile. With `idempotent`, for a
    /// script whose repeated call changes nothing, a call is sent again within the connection's command deadline when the
    /// connection was lost.
    public init(
        _ script: RedisScript, on connection: RedisConnection, sharedKeys: [RedisArgument] = [],
        sharedArguments: [RedisArgument] = [], keysPerCall: Int, argumentsPerCall: Int, batchMax: Int = 64,
        idempotent: Bool = false
    ) {
        precondition(batchMax > 0, "a batch holds at least one call")
        self.script = script
        self.connection = connection
        self.sharedKeys = sharedKeys
        self.sharedArguments = sharedArguments
        self.keysPerCall = keysPerCall
        self.argumentsPerCall = argumentsPerCall
        self.batchMax = batchMax
        isIdempotent = idempotent
    }

    /// Makes one call and waits for its element of the reply.
    public func call(keys: [RedisArgument], arguments: [RedisArgument]) async throws(RedisError) -> RedisValue {
        precondition(
            keys.count == keysPerCall && arguments.count == argumentsPerCall,
            "script \(script.name): wrong number of parts")
        guard isIdempotent else {
            return try await withUnsafeContinuation { add(keys, arguments, $0) }.get()
        }
        let deadline = MonotonicInstant.now + connection.configuration.commandDeadline
        while true {
            let reply = await withUnsafeContinuation { add(keys, arguments, $0) }
            guard case .failure(let error) = reply, error.mayBeCuredByReconnecting else { return try reply.get() }
            guard try await connection.waitUntilReady(before: deadline) else { throw error }
        }
    }

    private func add(_ callKeys: [RedisArgument], _ callArguments: [RedisArgument], _ call: Call) {
        if calls.isEmpty {
            parts.append(keys: sharedKeys, arguments: sharedArguments)
            EventLoop.shared.atTurnEnd { [weak self] in self?.sendBatch() }
        }
        parts.append(keys: callKeys, arguments: callArguments)
        calls.append(call)
        if calls.count == batchMax { sendBatch() }
    }

    private func sendBatch() {
        // The batch may have been full, and sent, before the turn's end.
        guard !calls.isEmpty else { return }
        let batch = calls
        let sent = parts
        calls = []
        parts = ScriptParts(like: sent)
        connection.evaluate(script, sent) { Self.distribute($0, to: batch) }
    }

    private static func distribute(_ reply: RedisLink.Reply, to batch: [Call]) {
        switch reply {
        case .failure:
            for call in batch { call.resume(returning: reply) }
        case .success(.array(let elements)) where elements.count == batch.count:
            for (call, element) in zip(batch, elements) {
                if case .error(let error) = element {
                    call.resume(returning: .failure(error))
                } else {
                    call.resume(returning: .success(element))
                }
            }
        case .success:
            // A mistake in the script, and it did run: what it did is unknown.
            let error = RedisError(.protocolError, "the script did not return one element per call")
            for call in batch { call.resume(returning: .failure(error)) }
        }
    }
}
