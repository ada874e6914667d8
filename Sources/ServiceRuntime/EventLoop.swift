import CUV
import Glibc
import Synchronization

/// The one libuv loop of the process, and the executor on which all I/O code of Teller runs.
///
/// Teller is one thread of work per process. C libraries report by callback on the loop's thread (`uv_poll`, timers,
/// signals), and the task that waits for the answer is resumed on that very thread: no lock, no hop, no second thread
/// that could see half a change. Code is bound to the loop by ``LoopActor``, which the compiler checks.
///
/// In a program started by ``main(_:)`` the loop also takes what Swift would run on its global pool, so that nothing
/// leaves the thread. In tests, which have threads of their own, that is not so: there `Task.yield()` and, in tasks
/// without an executor preference, continuations go round by the pool.
///
/// One turn of the loop is: wait for I/O → callbacks → ready jobs → ``atTurnEnd(_:)`` closures → wait. Everything that
/// became ready in one turn has run before the closures do, which is why batches and output buffers are flushed there.
public final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    // Invariant: `inbox`, `owner` and `wakeUp` (uv_async_send is documented as thread-safe) are all that other threads
    // touch; every other stored property is read and written on the owner's thread only (`preconditionOnLoop`).

    /// The loop of this process.
    public static let shared = EventLoop()

    /// Jobs run in one go before the loop looks at its file descriptors again.
    static let jobsPerDrainMax = 10_000

    let uv: UnsafeMutablePointer<uv_loop_t>
    private let wakeUp = UnsafeMutablePointer<uv_async_t>.allocate(capacity: 1)
    private let beforeWait = UnsafeMutablePointer<uv_prepare_t>.allocate(capacity: 1)
    private let afterWait = UnsafeMutablePointer<uv_check_t>.allocate(capacity: 1)
    private let dontWait = UnsafeMutablePointer<uv_idle_t>.allocate(capacity: 1)

    private let inbox = Mutex<[UnownedJob]>([])
    private let foreignJobs = Atomic<Int>(0)
    /// `pthread_self()` of the thread that runs the loop; 0 while there is none.
    private let owner = Atomic<UInt>(0)

    private var ready: [UnownedJob] = []
    private var running: [UnownedJob] = []
    private var turnEnd: [@LoopActor () -> Void] = []
    private var isStopping = false

    private init() {
        uv = .allocate(capacity: 1)
        signal(SIGPIPE, SIG_IGN)
        uvCheck(uv_loop_init(uv), "uv_loop_init")
        // Handles point back at the loop without owning it: the shared loop lives as long as the process.
        uv.pointee.data = Unmanaged.passUnretained(self).toOpaque()
        uvCheck(uv_async_init(uv, wakeUp) { _ in /* waking up is all: jobs run in `afterWait` */ }, "uv_async_init")
        uvCheck(uv_prepare_init(uv, beforeWait), "uv_prepare_init")
        uvCheck(uv_check_init(uv, afterWait), "uv_check_init")
        uvCheck(uv_idle_init(uv, dontWait), "uv_idle_init")
        uvCheck(uv_prepare_start(beforeWait) { EventLoop.of($0?.pointee.loop)?.drain() }, "uv_prepare_start")
        uvCheck(uv_check_start(afterWait) { EventLoop.of($0?.pointee.loop)?.drain() }, "uv_check_start")
    }

    private static func of(_ loop: UnsafeMutablePointer<uv_loop_t>?) -> EventLoop? {
        guard let data = loop?.pointee.data else { return nil }
        return Unmanaged<EventLoop>.fromOpaque(data).takeUnretainedValue()
    }

    // MARK: - Running

    /// Runs `body` and the loop on the calling (main) thread, then ends the process with `body`'s exit code.
    public static func main(_ body: @escaping @LoopActor @Sendable () async -> Int32) -> Never {
        let loop = shared
        guard loop.claim() else { preconditionFailure("the event loop already runs on another thread") }
        loop.takeGlobalJobs()
        Task(executorPreference: loop) { @LoopActor @Sendable in
            let code = await body()
            EventLoop.shared.end(code)
        }
        loop.run()
        exit(loop.exitCode)
    }

    private var exitCode: Int32 = 0

    private func end(_ code: Int32) {
        exitCode = code
        isStopping = true
        uv_stop(uv)
    }

    /// Makes the loop the executor of everything that names none, in place of Swift's global pool.
    ///
    /// A continuation resumes its task on the global executor, from where it is sent to its actor: two hops over another
    /// thread for every reply. With this hook of the concurrency runtime (the one that runs Swift in web browsers) the
    /// first hop stays on the loop and the second is none. A task-executor preference does the same for the tasks that
    /// have it, but is looked up at each resumption: a tenth of the CPU of a receipt.
    private func takeGlobalJobs() {
        teller_take_global_jobs { job, _ in
            guard let job else { return }
            // Invariant: a job is one pointer, in C as in Swift.
            EventLoop.shared.enqueue(ExecutorJob(unsafeBitCast(job, to: UnownedJob.self)))
        }
    }

    private func run() {
        while !isStopping { uv_run(uv, UV_RUN_DEFAULT) }
    }

    /// Makes the calling thread the loop's; false when it has one.
    private func claim() -> Bool {
        owner.compareExchange(expected: 0, desired: UInt(pthread_self()), ordering: .acquiringAndReleasing).exchanged
    }

    /// Tests and tools have no `main` of ours: the first job from outside starts a thread for the loop.
    private func startThreadIfNobodyRuns() {
        guard owner.load(ordering: .acquiring) == 0 else { return }
        var thread = pthread_t()
        let failed = pthread_create(
            &thread, nil,
            { _ in
                let loop = EventLoop.shared
                if loop.claim() { loop.run() }
                return nil
            }, nil)
        precondition(failed == 0, "no thread for the event loop: pthread_create gave \(failed)")
        pthread_detach(thread)
    }

    // MARK: - Executor

    /// Jobs that came from another thread so far.
    ///
    /// In our programs that is next to none: a number that grows with the work means that some of it leaks to the global
    /// pool and back.
    public var jobsFromOtherThreads: Int { foreignJobs.load(ordering: .relaxed) }

    /// True on the thread that runs the loop.
    public var isCurrent: Bool {
        owner.load(ordering: .relaxed) == UInt(pthread_self())
    }

    /// Stops the process when called on another thread than the loop's.
    public func preconditionOnLoop() {
        precondition(isCurrent, "code bound to the event loop ran on another thread")
    }

    /// Takes a job; see `Executor`.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isCurrent {
            ready.append(job)
            return
        }
        foreignJobs.add(1, ordering: .relaxed)
        let mustWake = inbox.withLock { jobs in
            jobs.append(job)
            return jobs.count == 1
        }
        if mustWake { uv_async_send(wakeUp) }
        startThreadIfNobodyRuns()
    }

    /// See `SerialExecutor`.
    public func checkIsolated() { preconditionOnLoop() }

    /// See `SerialExecutor`.
    public func isIsolatingCurrentContext() -> Bool? { isCurrent }

    /// Runs what is ready, then the turn-end closures, until neither is left or the bound is reached.
    private func drain() {
        var budget = Self.jobsPerDrainMax
        // Named as a serial executor only: the runtime goes on inline from call to call within a task while both executors
        // stay the same, and most tasks prefer no task executor. With ours named too each return to a function of the
        // loop would be a job of its own: 38 of them per receipt.
        let executor = asUnownedSerialExecutor()
        repeat {
            takeInbox()
            while !ready.isEmpty, budget > 0 {
                swap(&ready, &running)
                budget -= running.count
                for job in running { job.runSynchronously(on: executor) }
                running.removeAll(keepingCapacity: true)
            }
            if !turnEnd.isEmpty {
                let closures = turnEnd
                turnEnd.removeAll(keepingCapacity: true)
                LoopActor.assumeIsolated { for closure in closures { closure() } }
            }
        } while budget > 0 && !(ready.isEmpty && turnEnd.isEmpty)
        // With work left over the loop must only poll, not wait: an active idle handle makes its time-out zero.
        if ready.isEmpty && turnEnd.isEmpty { uv_idle_stop(dontWait) } else { uv_idle_start(dontWait) { _ in } }
    }

    private func takeInbox() {
        inbox.withLock { jobs in
            ready.append(contentsOf: jobs)
            jobs.removeAll(keepingCapacity: true)
        }
    }

    // MARK: - On the loop

    /// Runs `body` once in this turn, after all ready jobs ran and before the loop waits for I/O.
    @LoopActor public func atTurnEnd(_ body: @escaping @LoopActor () -> Void) {
        turnEnd.append(body)
    }

    /// Runs `body` on the loop: at once when already there, else as the next job.
    ///
    /// For cancellation handlers, which Swift calls on whichever thread cancels.
    public func perform(_ body: @escaping @LoopActor @Sendable () -> Void) {
        if isCurrent {
            LoopActor.assumeIsolated(body)
        } else {
            Task(executorPreference: self) { @LoopActor in body() }
        }
    }
}

/// A libuv call that fails only when the process is out of file descriptors or memory at start.
func uvCheck(_ result: Int32, _ call: StaticString) {
    precondition(result == 0, "\(call): \(String(cString: uv_strerror(result)))")
}
