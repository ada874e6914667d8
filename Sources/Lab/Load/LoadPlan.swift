public import Commerce
import Foundation

/// The catalogue of the Teller under test, for programs that only pass it on.
public typealias LoadCatalogue = Catalogue

/// What a load run does: how many receipts of which kinds, how fast, and to whom.
///
/// The seed decides the sequence of kinds, stores, products and players. Which earlier purchase a duplicate repeats
/// depends on timing as well.
public struct LoadPlan: Sendable {
    /// Where receipts are handed in.
    public enum Target: Sendable {
        /// `POST /shop/purchase` at one or several base URLs, with an API key `id.secret` of scope `submit`.
        ///
        /// A request that fails goes on at the next URL.
        case api(urls: [String], key: String)
        /// LPUSH onto the pending lists, as any program may.
        case list
    }

    /// What decides when the next receipt is handed in.
    public enum Pace: Sendable, Equatable {
        /// A fixed rate, whatever the answers do; latency counts from the scheduled time, so a stall is not hidden by the
        /// generator's own waiting (no coordinated omission).
        case openLoop(perSecond: Double)
        /// This many clients, each handing in its next receipt when it has a final answer to the one before.
        case closedLoop(concurrency: Int)
    }

    /// When the run ends.
    public enum Extent: Sendable, Equatable {
        /// After this many receipts, duplicates and all counted.
        case count(Int)
        /// After this time; what is in flight then is still waited for.
        case duration(Duration)
    }

    /// Shares of all receipts handed in, each 0...1; what is left is honest first submissions.
    public struct Mix: Sendable, Equatable {
        /// The same receipt by the same player again: must be answered as credited and change nothing.
        public var duplicates = 0.10
        /// An honest player's receipt by somebody else: must be refused.
        public var replays = 0.05
        /// Receipts that no store stands behind: must be refused.
        public var forged = 0.05
        /// Google purchases that nobody has paid for: must not be credited.
        public var pending = 0.02
        /// Apple's share of the purchases; the others are Google's.
        public var apple = 0.5

        /// The mix of the acceptance run.
        public init() {}

        /// Honest first submissions only.
        public static let honest: Mix = {
            var mix = Mix()
            (mix.duplicates, mix.replays, mix.forged, mix.pending) = (0, 0, 0, 0)
            return mix
        }()
    }

    /// Where receipts go.
    public var target: Target
    /// The Redis under test: its meta hash is checked for `production`, and the list target pushes to it.
    public var redis: LabRedis
    /// Base URL of the store emulator.
    public var emulatorURL: String
    /// What is on sale; must be the catalogue of the Teller under test.
    public var catalogue: Catalogue
    /// How fast.
    public var pace = Pace.closedLoop(concurrency: 64)
    /// How much.
    public var extent = Extent.count(1000)
    /// Which kinds.
    public var mix = Mix()
    /// Decides everything that is decided by chance.
    public var seed: UInt64 = 1
    /// How many players buy.
    public var players = 1000
    /// Begins the players' names.
    public var playerPrefix = "lab-"
    /// Whether the list target waits for each receipt's status; without, it only pushes.
    public var waitsForAnswers = true
    /// `Prefer: wait=` of each request.
    public var waitSeconds = 10
    /// For how long a client goes on with one receipt until it has a final answer.
    public var patience: Duration = .seconds(120)
    /// Open loop: most receipts in flight at once; later ones wait, their clock running.
    public var inFlightMax = 20_000
    /// Closed loop with a duration: purchases made before the clock starts; more are bought while it runs.
    public var stockSize = 20_000
    /// Processes whose CPU time and memory are reported.
    public var watchedProcesses: [Int32] = []

    /// A plan with the acceptance run's mix; what it says nothing about has a default.
    public init(target: Target, redis: LabRedis, emulatorURL: String, catalogue: Catalogue) {
        self.target = target
        self.redis = redis
        self.emulatorURL = emulatorURL
        self.catalogue = catalogue
    }

    /// Reads the catalogue file of the Teller under test.
    public static func catalogue(ofFile path: String) throws -> LoadCatalogue {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw LabError.impossiblePlan("\(path): cannot be read")
        }
        return try Catalogue(json: [UInt8](data))
    }

    func check() throws(LabError) {
        let shares = [mix.duplicates, mix.replays, mix.forged, mix.pending]
        guard shares.allSatisfy({ (0...1).contains($0) }), shares.reduce(0, +) < 1, (0...1).contains(mix.apple) else {
            throw .impossiblePlan("the shares of receipts must be from 0 to 1 and leave room for honest ones")
        }
        guard players >= 2 else { throw .impossiblePlan("a run needs at least two players") }
        if case .api(let urls, let key) = target {
            guard !urls.isEmpty, !key.isEmpty else { throw .impossiblePlan("the API needs a URL and a key") }
        }
        switch pace {
        case .openLoop(let rate): guard rate > 0 else { throw .impossiblePlan("the rate must be positive") }
        case .closedLoop(let clients):
            guard clients > 0 else { throw .impossiblePlan("the concurrency must be positive") }
        }
        switch extent {
        case .count(let count): guard count > 0 else { throw .impossiblePlan("the count must be positive") }
        case .duration(let time): guard time > .zero else { throw .impossiblePlan("the duration must be positive") }
        }
    }
}
