import ServiceRuntime
import Testing

@Suite @LoopActor struct MetricsTests {
    private func lines(_ metrics: Metrics, about name: String) -> [String] {
        metrics.render().split(separator: "\n").map(String.init).filter { $0.contains(name) }
    }

    @Test func rendersCountersSortedByLabels() {
        let metrics = Metrics()
        metrics.counter("jobs_total", "Jobs.", labels: ["queue": "google", "a": "1"]).increment(by: 2)
        metrics.counter("jobs_total", "Jobs.", labels: ["queue": "apple"]).increment()
        metrics.counter("jobs_total", "Jobs.").increment(by: 0)
        #expect(
            lines(metrics, about: "jobs_total") == [
                "# HELP jobs_total Jobs.", "# TYPE jobs_total counter", "jobs_total 0",
                "jobs_total{a=\"1\",queue=\"google\"} 2", "jobs_total{queue=\"apple\"} 1",
            ])
    }

    @Test func escapesLabelsAndHelp() {
        let metrics = Metrics()
        metrics.gauge("g", "back\\slash \"quoted\"\nnext", labels: ["l": "back\\slash \"quoted\"\nnext"]).set(1)
        #expect(
            metrics.render().hasPrefix(
                #"""
                # HELP g back\\slash "quoted"\nnext
                # TYPE g gauge
                g{l="back\\slash \"quoted\"\nnext"} 1

                """#))
    }

    @Test(
        arguments: [
            (0, "0"), (1, "1"), (-1.5, "-1.5"), (1e20, "1e+20"), (.infinity, "+Inf"), (-.infinity, "-Inf"),
            (.nan, "NaN"),
            (123456789, "123456789"), (0.1, "0.1"),
        ] as [(Double, String)])
    func writesNumbersTheWayPrometheusReadsThem(_ value: Double, _ text: String) {
        let metrics = Metrics()
        metrics.gauge("g", "G.").set(value)
        #expect(lines(metrics, about: "g ").last == "g " + text)
    }

    @Test func aGaugeCanBeReadWhenAskedFor() {
        let metrics = Metrics()
        let depth = metrics.gauge("source", "Source.")
        depth.set(1)
        metrics.gauge("depth", "Depth.") { depth.value }
        #expect(lines(metrics, about: "depth ").last == "depth 1")
        depth.set(2)
        #expect(lines(metrics, about: "depth ").last == "depth 2")
    }

    @Test func aHistogramIsCumulativeAndItsBoundsAreInclusive() {
        let metrics = Metrics()
        let histogram = metrics.histogram("h_seconds", "H.", labels: ["op": "get"], buckets: [0.1, 1, 10])
        for seconds in [0.1, 0.05, 0.5, 1, 11, .nan] { histogram.observe(seconds: seconds) }
        #expect(
            lines(metrics, about: "h_seconds") == [
                "# HELP h_seconds H.", "# TYPE h_seconds histogram",
                "h_seconds_bucket{op=\"get\",le=\"0.1\"} 2", "h_seconds_bucket{op=\"get\",le=\"1\"} 4",
                "h_seconds_bucket{op=\"get\",le=\"10\"} 4", "h_seconds_bucket{op=\"get\",le=\"+Inf\"} 5",
                "h_seconds_sum{op=\"get\"} 12.65", "h_seconds_count{op=\"get\"} 5",
            ])
        #expect(histogram.count == 5)
    }

    @Test func theSameNameAndLabelsAreTheSameSeries() {
        let metrics = Metrics()
        let first = metrics.counter("c_total", "C.", labels: ["a": "1", "b": "2"])
        let second = metrics.counter("c_total", "C.", labels: ["b": "2", "a": "1"])
        first.increment()
        second.increment()
        #expect(first === second)
        #expect(first.value == 2)
    }

    @Test func aLabelFullOfDataIsBounded() {
        let metrics = Metrics()
        for player in 0..<(Metrics.seriesPerNameMax + 100) {
            metrics.counter("c_total", "C.", labels: ["player": "\(player)"]).increment()
        }
        #expect(lines(metrics, about: "c_total{").count == Metrics.seriesPerNameMax)
    }

    @Test func tellsAboutTheProcess() throws {
        let text = Metrics().render()
        func value(_ name: String) throws -> Double {
            let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
            return try #require(line.flatMap { Double($0.dropFirst(name.count + 1)) })
        }
        #expect(try value("process_resident_memory_bytes") > 1_000_000)
        #expect(try value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"))
        #expect(try value("process_cpu_seconds_total") > 0)
        #expect(try value("process_threads") >= 1)
        #expect(try value("process_open_fds") >= 3)
        #expect(try value("process_max_fds") >= value("process_open_fds"))
        #expect(try value("process_start_time_seconds") > 1_700_000_000)
    }

    @Test func everyLineIsACommentOrASample() {
        let metrics = Metrics()
        metrics.histogram("h", "H.").observe(1)
        metrics.counter("c_total", "C.", labels: ["x": "ü\n"]).increment()
        for line in metrics.render().split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            let isComment = line.hasPrefix("# HELP ") || line.hasPrefix("# TYPE ")
            let value = line.split(separator: " ").last.map(String.init)
            #expect(isComment || value.flatMap(Double.init) != nil, "\(line)")
        }
    }

    @Test(arguments: ["1name", "", "na-me", "näme"])
    func aWrongNameStopsTheProgram(_ name: String) async {
        await #expect(processExitsWith: .failure) { [name = name as String] in
            await MetricsTests.register(name)
        }
    }

    nonisolated static func register(_ name: String) async {
        _ = await Task { @LoopActor in _ = Metrics().counter(name, "Help.") }.value
    }
}
