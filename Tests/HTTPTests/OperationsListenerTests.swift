import HTTP
import ServiceRuntime
import Testing

@Suite struct OperationsListenerTests {
    @Test func servesMetricsHealthAndReadiness() async throws {
        let (listener, port, missing) = try await make()
        try await withClient { client in
            func get(_ path: String) async throws -> (Int, String) {
                let answer = try await client.send(OutgoingRequest(.get, "http://127.0.0.1:\(port)\(path)"))
                return (answer.status, String(decoding: answer.body, as: UTF8.self))
            }
            let metrics = try await get("/metrics")
            #expect(metrics.0 == 200)
            #expect(metrics.1.contains("test_things_total 3"))
            #expect(try await get("/healthz") == (200, #"{"status":"alive"}"#))
            let notReady = try await get("/readyz")
            #expect(notReady.0 == 503)
            #expect(notReady.1.contains(#""missing":{"redis":"not connected"}"#))
            await missing.set("")
            #expect(try await get("/readyz") == (200, #"{"status":"ready"}"#))
            #expect(try await get("/other").0 == 404)
        }
        await listener.stop()
    }

    @LoopActor private func make() throws -> (OperationsListener, Int, Tally) {
        let missing = Tally()
        missing.note = "not connected"
        let metrics = Metrics()
        metrics.counter("test_things_total", "Things.").increment(by: 3)
        let listener = OperationsListener(HTTPServer.Configuration(), metrics: metrics, logger: .disabled) {
            missing.note.isEmpty ? [:] : ["redis": missing.note]
        }
        return (listener, try listener.start(), missing)
    }
}

extension Tally {
    fileprivate func set(_ text: String) { note = text }
}
