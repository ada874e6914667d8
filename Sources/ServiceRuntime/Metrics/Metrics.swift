/// The metrics of the process, rendered as Prometheus text (exposition format 0.0.4).
///
/// Counting is an integer addition on the loop's thread, without locks or atomics: everything that counts is
/// `@LoopActor`. Modules ask for their metrics once, at init, and keep them. Asking again with the same name and labels
/// gives the same object, so two connections may count into one series. A wrong name, or one name used with two types,
/// is a mistake in the program and stops it at start. Labels must be few and never hold ids, receipts or keys.
@LoopActor
public final class Metrics {
    /// Most series of one name.
    ///
    /// More is a label that holds data by mistake: those count, but are not rendered.
    public static let seriesPerNameMax = 500

    /// Upper bounds, in seconds, that fit a network call: 0.5 ms to 15 s.
    public nonisolated static let latencySeconds: [Double] = [
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15,
    ]

    private enum Series {
        case counter(Counter)
        case gauge(Gauge)
        case histogram(Histogram)

        var type: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    private struct Family {
        let help: String
        let type: String
        /// By rendered labels.
        var series: [String: Series]
    }

    private var families: [String: Family] = [:]
    private let process: ProcessMetrics

    /// Makes an empty set, with the basics of the process (`process_*`).
    public init() {
        process = ProcessMetrics()
    }

    /// The counter `name` with `labels`; the name should end in `_total`.
    public func counter(_ name: String, _ help: String, labels: [String: String] = [:]) -> Counter {
        let series = series(name, help, labels) { .counter(Counter()) }
        guard case .counter(let counter) = series else { preconditionFailure("\(name) is a \(series.type)") }
        return counter
    }

    /// The gauge `name` with `labels`, to be set.
    public func gauge(_ name: String, _ help: String, labels: [String: String] = [:]) -> Gauge {
        let series = series(name, help, labels) { .gauge(Gauge()) }
        guard case .gauge(let gauge) = series else { preconditionFailure("\(name) is a \(series.type)") }
        return gauge
    }

    /// The gauge `name` with `labels`, read when somebody asks; a later `read` replaces an earlier one.
    @discardableResult
    public func gauge(
        _ name: String, _ help: String, labels: [String: String] = [:], read: @escaping @LoopActor () -> Double
    ) -> Gauge {
        let gauge = gauge(name, help, labels: labels)
        gauge.read = read
        return gauge
    }

    /// The histogram `name` with `labels`; `buckets` are ascending upper bounds.
    public func histogram(
        _ name: String, _ help: String, labels: [String: String] = [:], buckets: [Double] = Metrics.latencySeconds
    ) -> Histogram {
        precondition(labels["le"] == nil, "\(name): the label le belongs to the buckets")
        let series = series(name, help, labels) { .histogram(Histogram(buckets: buckets)) }
        guard case .histogram(let histogram) = series else { preconditionFailure("\(name) is a \(series.type)") }
        precondition(histogram.buckets == buckets, "\(name) was made with other buckets")
        return histogram
    }

    private func series(
        _ name: String, _ help: String, _ labels: [String: String], make: () -> Series
    ) -> Series {
        let key = PrometheusText.labels(labels)
        if let known = families[name]?.series[key] { return known }
        precondition(PrometheusText.isMetricName(name), "\(name) is not a metric name")
        for label in labels.keys { precondition(PrometheusText.isLabelName(label), "\(label) is not a label name") }
        let made = make()
        var family = families[name] ?? Family(help: help, type: made.type, series: [:])
        precondition(family.type == made.type, "\(name) is a \(family.type)")
        guard family.series.count < Self.seriesPerNameMax else { return made }
        family.series[key] = made
        families[name] = family
        return made
    }

    /// All metrics as text for `Content-Type: text/plain; version=0.0.4`, sorted by name and labels.
    public func render() -> String {
        var text = ""
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            PrometheusText.appendHeader(name, family.help, type: family.type, to: &text)
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                switch series {
                case .counter(let counter):
                    PrometheusText.append(name, labels, counter.value.description, to: &text)
                case .gauge(let gauge):
                    PrometheusText.append(name, labels, PrometheusText.number(gauge.value), to: &text)
                case .histogram(let histogram):
                    histogram.append(name, labels, to: &text)
                }
            }
        }
        process.append(to: &text)
        return text
    }
}

/// A number that only grows.
@LoopActor
public final class Counter {
    /// The count so far.
    public private(set) var value = 0

    init() {}

    /// Adds `amount`, which is not negative.
    public func increment(by amount: Int = 1) {
        precondition(amount >= 0, "a counter does not shrink")
        value &+= amount
    }
}

/// Counters of one name, told apart by a label whose values are only known when something is counted.
///
/// The values are few (see ``Metrics``) and mostly short: comparing them one by one costs less than hashing one.
@LoopActor
public final class CounterFamily {
    private let make: @LoopActor (String) -> Counter
    private var counters: [(value: String, counter: Counter)] = []

    /// Names the counters, the label that tells them apart, and the labels they share.
    public init(_ metrics: Metrics, _ name: String, _ help: String, label: String, labels: [String: String] = [:]) {
        make = { value in metrics.counter(name, help, labels: labels.merging([label: value]) { $1 }) }
    }

    /// Adds `amount` to the counter with this value of the label, which is made when it is not there yet.
    public func increment(_ value: String, by amount: Int = 1) {
        counter(value).increment(by: amount)
    }

    /// The counter with this value of the label; asked for ahead, it is rendered at 0.
    @discardableResult
    public func counter(_ value: String) -> Counter {
        for known in counters where known.value == value { return known.counter }
        let counter = make(value)
        counters.append((value, counter))
        return counter
    }
}

/// A number that goes up and down.
@LoopActor
public final class Gauge {
    private var current = 0.0
    fileprivate(set) var read: (@LoopActor () -> Double)?

    init() {}

    /// The value, asked for now when the gauge was made with a closure.
    public var value: Double { read?() ?? current }

    /// Sets the value.
    public func set(_ value: Double) { current = value }

    /// Adds `amount`, which may be negative.
    public func add(_ amount: Double) { current += amount }
}

/// Counts observations by size.
@LoopActor
public final class Histogram {
    let buckets: [Double]
    /// Observations per bucket, not cumulative; the last is "greater than all bounds".
    private var counts: [Int]
    private var sum = 0.0

    init(buckets: [Double]) {
        precondition(
            zip(buckets, buckets.dropFirst()).allSatisfy { $0 < $1 } && buckets.allSatisfy(\.isFinite),
            "bucket bounds must be finite and ascend")
        self.buckets = buckets
        counts = Array(repeating: 0, count: buckets.count + 1)
    }

    /// Observations so far.
    public var count: Int { counts.reduce(0, +) }

    /// Counts one duration in seconds.
    public func observe(seconds: Double) { observe(seconds) }

    /// Counts one value, in whatever unit the metric's name says; NaN is ignored.
    public func observe(_ value: Double) {
        guard !value.isNaN else { return }
        // A bucket holds what is less than *or equal to* its bound.
        var bucket = 0
        while bucket < buckets.count, value > buckets[bucket] { bucket += 1 }
        counts[bucket] += 1
        sum += value
    }

    fileprivate func append(_ name: String, _ labels: String, to text: inout String) {
        var cumulative = 0
        for (bound, count) in zip(buckets + [.infinity], counts) {
            cumulative += count
            let le = "le=\"\(PrometheusText.number(bound))\""
            let all = labels.isEmpty ? le : labels + "," + le
            PrometheusText.append(name + "_bucket", all, cumulative.description, to: &text)
        }
        PrometheusText.append(name + "_sum", labels, PrometheusText.number(sum), to: &text)
        PrometheusText.append(name + "_count", labels, cumulative.description, to: &text)
    }
}
