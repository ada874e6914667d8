/// A part of the process with a start and a stop.
public struct Service: Sendable {
    /// What the log calls it.
    public let name: String
    /// Returns when the service answers; throws when it cannot.
    ///
    /// It must end promptly on cancellation.
    public let start: @LoopActor @Sendable () async throws -> Void
    /// Finishes what is begun, within the given time, and frees everything.
    public let stop: @LoopActor @Sendable (Duration) async -> Void

    /// Makes a service from its two ends.
    public init(
        _ name: String, start: @escaping @LoopActor @Sendable () async throws -> Void,
        stop: @escaping @LoopActor @Sendable (Duration) async -> Void
    ) {
        self.name = name
        self.start = start
        self.stop = stop
    }
}

/// Which service could not be started, and why; everything started before it has been stopped again.
public struct ServiceStartError: Error {
    /// The service's name.
    public let service: String
    /// What its `start` threw.
    public let cause: any Error

    /// The cause for the log: its own words when it has any, else its type.
    ///
    /// Error types with a hand-written description are made for logs; the description that Swift makes up would show
    /// every stored property, secrets too.
    var causeText: String {
        guard let described = cause as? any CustomStringConvertible else { return "\(type(of: cause))" }
        return described.description
    }
}

/// How the stop of one service went.
public struct StopReport: Sendable, Equatable {
    /// The service's name.
    public let service: String
    /// Whether it was done in time; if not, it was left behind.
    public let inTime: Bool
    /// How long it took.
    public let took: Duration
}

/// Starts services in order and stops them in reverse order, so that each can use those before it to its last moment.
///
/// The stop has one deadline for all, shorter than the supervisor's: a service that does not end in time is left behind
/// and named in the log, and the others still get their turn. Being killed here is a crash like any other: what
/// was leased is taken up by the next process.
@LoopActor
public final class ServiceGroup {
    /// The stop deadline, unless chosen: below the 30 s after which the systemd units kill.
    public nonisolated static let stopWithin: Duration = .seconds(25)
    /// What every service gets to stop, even when those before it used up the time.
    nonisolated static let stopEachMin: Duration = .milliseconds(250)

    private let logger: Logger
    private let stopWithin: Duration
    private let systemd: SystemdNotifier
    private var services: [Service] = []
    private var started: [Service] = []

    /// Makes an empty group.
    public init(
        logger: Logger, stopWithin: Duration = ServiceGroup.stopWithin,
        systemd: SystemdNotifier = SystemdNotifier(socketPath: nil)
    ) {
        self.logger = logger
        self.stopWithin = stopWithin
        self.systemd = systemd
    }

    /// Adds a service, started after and stopped before those added earlier.
    public func add(_ service: Service) { services.append(service) }

    /// Adds a service made from its two ends.
    public func add(
        _ name: String, start: @escaping @LoopActor @Sendable () async throws -> Void = {},
        stop: @escaping @LoopActor @Sendable (Duration) async -> Void = { _ in }
    ) {
        add(Service(name, start: start, stop: stop))
    }

    /// Starts everything, tells systemd, waits for `shutdown`, stops everything; gives the exit code.
    ///
    /// 0: stopped as asked. 1: a service did not start, or did not stop in time.
    public func run(until shutdown: Shutdown) async -> Int32 {
        do {
            try await start(unless: shutdown)
        } catch {
            logger.error(
                "service did not start", ["service": .string(error.service), "cause": .string(error.causeText)])
            return 1
        }
        if !shutdown.isRequested {
            systemd.ready()
            logger.notice("started", ["services": .count(started.count)])
        }
        await shutdown.wait()
        let reports = await stop()
        return reports.allSatisfy(\.inTime) ? 0 : 1
    }

    /// Starts the services in order; when one fails, those before it are stopped again.
    public func start() async throws(ServiceStartError) {
        try await start(unless: Shutdown())
    }

    private func start(unless shutdown: Shutdown) async throws(ServiceStartError) {
        for service in services.dropFirst(started.count) {
            guard !shutdown.isRequested else { return }
            let begin = MonotonicInstant.now
            do {
                guard try await start(service, unless: shutdown) else { return }
            } catch {
                await stop()
                throw ServiceStartError(service: service.name, cause: error)
            }
            started.append(service)
            logger.info("service started", ["service": .string(service.name), "tookMs": .milliseconds(begin.elapsed)])
        }
    }

    /// False when `shutdown` came first; the start was then cancelled, and the service counts as not started.
    private func start(_ service: Service, unless shutdown: Shutdown) async throws -> Bool {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { @LoopActor @Sendable in
                try await service.start()
                return true
            }
            group.addTask { @LoopActor @Sendable in
                await shutdown.wait()
                return false
            }
            let isStarted = try await group.next() ?? false
            group.cancelAll()
            guard !isStarted else { return true }
            // The start may have succeeded all the same, and then it must be stopped. What it throws is its cancellation.
            let isStartedAnyway = (try? await group.next()) ?? false
            if isStartedAnyway { started.append(service) }
            return false
        }
    }

    /// Stops what is started, in reverse order; says what each did.
    @discardableResult
    public func stop() async -> [StopReport] {
        systemd.stopping()
        logger.notice("stopping", ["services": .count(started.count)])
        let begin = MonotonicInstant.now
        var reports: [StopReport] = []
        while let service = started.popLast() {
            let report = await stop(service, within: max(stopWithin - begin.elapsed, Self.stopEachMin))
            reports.append(report)
            let fields: [String: LogValue] = [
                "service": .string(report.service), "tookMs": .milliseconds(report.took),
            ]
            if report.inTime {
                logger.info("service stopped", fields)
            } else {
                logger.error("service did not stop in time", fields)
            }
        }
        logger.notice("stopped", ["tookMs": .milliseconds(begin.elapsed)])
        return reports
    }

    private func stop(_ service: Service, within limit: Duration) async -> StopReport {
        let begin = MonotonicInstant.now
        let isDone = Completion<Bool>()
        let timer = EventLoop.shared.timer(after: limit) { isDone.complete(false) }
        // Unstructured on purpose: a task group would wait for a child that never ends. Whoever did not stop by its
        // deadline is left behind, and the process ends soon after.
        let stopping = Task(executorPreference: EventLoop.shared) { @LoopActor @Sendable in
            await service.stop(limit)
            isDone.complete(true)
        }
        let inTime = await isDone.wait()
        timer.cancel()
        if !inTime { stopping.cancel() }
        return StopReport(service: service.name, inTime: inTime, took: begin.elapsed)
    }
}
