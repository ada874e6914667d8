public import ServiceRuntime

extension LoadReport {
    /// The percentiles that reports show.
    private static let percentiles: [Double] = [50, 90, 99, 99.9]

    /// Lines for people.
    public var text: String {
        let total = handedIn.values.reduce(0, +)
        var lines = [
            "load: \(total) receipts in \(LabText.seconds(took)) s, \(LabText.fixed(perSecond, 0)) final answers a second "
                + "(seed \(seed))"
        ]
        if let endedEarly { lines.append("  ENDED EARLY   \(endedEarly)") }
        lines.append("  latency ms    " + Self.row("all", latency))
        for kind in SubmissionKind.allCases {
            guard let histogram = latencies[kind], latencies.count > 1 else { continue }
            lines.append("                " + Self.row(kind.rawValue, histogram))
        }
        for kind in SubmissionKind.allCases {
            guard let count = handedIn[kind] else { continue }
            let words = (answers[kind] ?? [:]).sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }
            let label = "  \(kind.rawValue) \(count)"
            lines.append(
                label + String(repeating: " ", count: max(1, 24 - label.count)) + words.joined(separator: ", "))
        }
        let again = retries.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        lines.append("  attempts      \(attempts)" + (again.isEmpty ? "" : ", made again after: \(again)"))
        for process in processes { lines.append("  " + row(process)) }
        lines.append("  wrong answers \(wrongAnswerCount), gave up \(gaveUp)")
        lines += wrongAnswers.prefix(20).map { "    " + $0 }
        return lines.joined(separator: "\n")
    }

    private static func row(_ name: String, _ histogram: LatencyHistogram) -> String {
        let values = percentiles.map { percent in
            let label = percent == percent.rounded() ? LabText.fixed(percent, 0) : LabText.fixed(percent, 1)
            return "p\(label) \(LabText.milliseconds(histogram.percentile(percent)))"
        }
        return (["\(name):"] + values + ["max \(LabText.milliseconds(histogram.max))"]).joined(separator: "  ")
    }

    private func row(_ process: ProcessUsage) -> String {
        let each = finished > 0 ? process.cpu.inSeconds * 1_000_000 / Double(finished) : 0
        let load = took > .zero ? process.cpu.inSeconds / took.inSeconds * 100 : 0
        return "process       \(process.pid) \(process.name): CPU \(LabText.fixed(process.cpu.inSeconds, 2)) s "
            + "(\(LabText.fixed(load, 0)) %, \(LabText.fixed(each, 1)) µs a receipt), "
            + "memory \(LabText.mebibytes(process.residentBytesAtEnd)) MiB at the end, "
            + "\(LabText.mebibytes(process.residentBytesMax)) at most" + (process.hasEnded ? ", ENDED" : "")
    }

    /// Writes the report as one JSON object's members; times in microseconds.
    public func write(to json: inout JSONWriter) {
        json.member("seed", String(seed))
        json.member("tookMs", took.inMilliseconds)
        json.member("finished", finished)
        json.member("perSecond", perSecond)
        json.member("clean", isClean)
        json.member("endedEarly", endedEarly)
        json.member("latencyMicroseconds", object: { json in Self.write(latency, to: &json) })
        json.member(
            "kinds",
            object: { json in
                for kind in SubmissionKind.allCases {
                    guard let count = handedIn[kind] else { continue }
                    json.member(
                        dynamic: kind.rawValue,
                        object: { json in
                            json.member("handedIn", count)
                            json.member(
                                "answers", object: { json in LabText.write(answers[kind] ?? [:], to: &json) })
                            json.member(
                                "latencyMicroseconds",
                                object: { json in Self.write(latencies[kind] ?? LatencyHistogram(), to: &json) })
                        })
                }
            })
        json.member("attempts", attempts)
        json.member("retries", object: { json in LabText.write(retries, to: &json) })
        json.member("wrongAnswerCount", wrongAnswerCount)
        json.member("wrongAnswers", array: { json in for answer in wrongAnswers { json.element(answer) } })
        json.member("gaveUp", gaveUp)
        json.member("bought", bought)
        json.member(
            "processes",
            array: { json in for process in processes { json.object { json in Self.write(process, to: &json) } } })
    }

    private static func write(_ histogram: LatencyHistogram, to json: inout JSONWriter) {
        json.member("count", histogram.count)
        json.member("mean", histogram.mean.inMicroseconds)
        for percent in percentiles {
            let name = percent == percent.rounded() ? "p\(Int(percent))" : "p\(LabText.fixed(percent, 1))"
            json.member(dynamic: name, histogram.percentile(percent).inMicroseconds)
        }
        json.member("max", histogram.max.inMicroseconds)
    }

    private static func write(_ process: ProcessUsage, to json: inout JSONWriter) {
        json.member("pid", Int(process.pid))
        json.member("name", process.name)
        json.member("cpuSeconds", process.cpu.inSeconds)
        json.member("residentBytesMax", process.residentBytesMax)
        json.member("residentBytesAtEnd", process.residentBytesAtEnd)
        json.member("hasEnded", process.hasEnded)
    }
}

extension Duration {
    fileprivate var inMicroseconds: Int64 {
        components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
    }
}
