/// The isolation of all code that runs on ``EventLoop``: C handles, connections, queues, counters.
///
/// A class marked `@LoopActor` may hold C handles and mutable state without a lock, since the compiler lets nobody
/// touch it from elsewhere, and two methods of it are never interrupted by each other except at an `await`.
@globalActor
public actor LoopActor {
    /// The actor behind the attribute.
    public static let shared = LoopActor()

    /// Runs this actor's code on the loop's thread.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        EventLoop.shared.asUnownedSerialExecutor()
    }

    /// Runs `body` as code of the loop; for C callbacks, which are always called on the loop's thread.
    ///
    /// Stops the process when the claim is false.
    public static func assumeIsolated<Result>(_ body: @LoopActor () throws -> Result) rethrows -> Result {
        EventLoop.shared.preconditionOnLoop()
        return try withoutActuallyEscaping(body) { isolated in
            // Invariant: only the isolation differs between the two function types, and it was just checked. The
            // standard library's MainActor.assumeIsolated is made the same way.
            try unsafeBitCast(isolated, to: (() throws -> Result).self)()
        }
    }
}
