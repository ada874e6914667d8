import Foundation
import Glibc
import HTTP
import Jobs
import Operations
import Redis
import ServiceRuntime
import Signing
import StoreEmulator
import TestSupport
import Testing

/// The built program at work: one API and one worker as processes, a real Redis, both stores over HTTP.
@LoopActor
@Suite(.serialized) struct ProcessTests {
    /// Names of metrics in the rules, but for those that appear with their first event.
    private static func namesInAlerts() throws -> Set<String> {
        let text = try String(contentsOfFile: Repository.root + "/deploy/alerts.prometheus.yml", encoding: .utf8)
        let names = text.matches(of: try Regex(#"\b(teller|process)_[a-z_]+"#)).map { String(text[$0.range]) }
        return Set(names).subtracting(["teller_jobs_refused_total", "teller_receipts_awaiting_product_total"])
    }

    @Test(.timeLimit(.minutes(5))) func purchasesAreCreditedAndEverythingCanBeSeenAndStopped() async throws {
        try await Town.run { town in
            let first = try await town.teller("init")
            let second = try await town.teller("init")
            #expect(first.code == 0 && first.output.hasPrefix("Initialised") && first.output.contains("not production"))
            #expect(second.code == 0 && second.output.hasPrefix("Already initialised"))
            let (api, worker) = (try town.start("api"), try town.start("worker"))
            let port = try await town.line("api listener", in: api).int64("port")
            let inside = try await town.line("operations listener", in: api).int64("port")
            let workersInside = try await town.line("operations listener", in: worker).int64("port")

            for store in [EmulatedStore.apple, .google] {
                let answer = try await town.purchase(port, store)
                #expect(answer.hasPrefix("200 ") && answer.contains(#""granted":{"gems":550}"#), "\(answer)")
            }
            let wallet = try await town.get(port, "/shop/wallet?userId=ada")
            #expect(wallet.text.contains(#""balances":{"gems":1100}"#))

            for port in [inside, workersInside] {
                #expect(try await town.get(port, "/healthz").status == 200)
                #expect(try await town.get(port, "/readyz").status == 200)
            }
            try await self.deadLettersAreShownAndReplayed(town)
            let status = try await town.teller("status", "--json", "--interval", "0.2")
            let json = try JSONView.parse(status.output)
            #expect(status.code == 0)
            #expect(try json.elements("workers").count == 1 && json.int64("dead") == 1)
            let people = try await town.teller("status", "--interval", "0.2")
            #expect(people.code == 0 && people.output.contains("dead letters: 1"))

            try await eventually(within: .seconds(30), "the gauges to see it") {
                try await town.get(inside, "/metrics").text.contains("\nteller_dead_letters 1\n")
            }
            // What is counted by reason appears with the first.
            #expect(try await town.get(port, "/shop/wallet").status == 400)
            let metrics = try await town.get(inside, "/metrics").text + town.get(workersInside, "/metrics").text
            for name in try Self.namesInAlerts() {
                #expect(metrics.contains("\n\(name)"), "nobody exports \(name)")
            }

            api.signal(SIGTERM)
            worker.signal(SIGTERM)
            let codes = [try await api.end(within: .seconds(30)), try await worker.end(within: .seconds(30))]
            #expect(codes == [0, 0])
            #expect(api.errors.contains("api drained") && worker.errors.contains("worker drained"))
            #expect(!(api.errors + worker.errors).contains("eyJ"))
        }
    }

    private func deadLettersAreShownAndReplayed(_ town: Town) async throws {
        try await town.withRedis { redis in
            _ = try await redis.send(["LPUSH", "teller:{0}:pending:apple", #"{"receiptData":"s3cret-receipt"}"#])
        }
        var line = ""
        try await eventually(within: .seconds(60), "a dead letter") {
            line = try await town.teller("dead", "list", "--json").output
            return line.contains("malformed-job")
        }
        let id = try JSONView.parse(line).string("id")
        let list = try await town.teller("dead", "list")
        #expect(list.code == 0 && list.output.contains(id) && !list.output.contains("s3cret"))
        let beyond = try await town.teller("dead", "list", "--offset", "1")
        #expect(beyond.code == 0 && beyond.output == "No dead letters after the first 1.\n")
        let nothing = try await town.teller("dead", "list", "--offset", "1", "--json")
        #expect(nothing.code == 0 && nothing.output.isEmpty)
        let shown = try await town.teller("dead", "show", id)
        #expect(shown.code == 0 && !shown.output.contains("s3cret"))
        let payload = try await town.teller("dead", "show", id, "--payload")
        #expect(payload.code == 0 && payload.output.contains("s3cret-receipt"))
        #expect(try await town.teller("dead", "show", "nothing").code == 2)
        let missing = try await town.teller("dead", "replay", "nothing")
        #expect(missing.code == 1 && missing.output.contains("nothing: missing"))
        try await self.nobodyReplaysWithoutTheRights(town, id)
        let replay = try await town.teller("dead", "replay", "--all")
        #expect(replay.code == 0 && replay.output.hasSuffix("1 of 1 replayed\n"))
        try await eventually(within: .seconds(60), "it to be dead again") {
            try await town.teller("dead", "list", "--json").output.contains("malformed-job")
        }
    }

    /// As the user of the API, which can read the dead and push, and remove nothing.
    private func nobodyReplaysWithoutTheRights(_ town: Town, _ id: String) async throws {
        let acl = try String(contentsOfFile: Repository.root + "/deploy/redis.conf", encoding: .utf8)
        let line = try #require(acl.split(separator: "\n").first { $0.hasPrefix("user teller-api on ") })
        let rules = line.split(separator: " ").dropFirst().map { RedisArgument.string(String($0)) }
        try await town.withRedis { redis in _ = try await redis.send(["ACL", "SETUSER"] + rules + [">p"]) }
        let run = try await TellerProgram.run(
            ["dead", "replay", id, "--config", town.directory + "/teller.json"],
            environment: ["TELLER_REDIS_URL": "redis://teller-api:p@127.0.0.1:\(town.server.port)"])
        #expect(run.code == 1 && run.errors.contains("does not let the user \"teller-api\""), "\(run)")
        #expect(run.errors.contains("teller-ops") && run.errors.split(separator: "\n").count == 1)
    }

    @Test(.timeLimit(.minutes(5))) func brokenCatalogueIsRefusedAndTheOldOneStays() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let (api, worker) = (try town.start("api"), try town.start("worker"))
            let port = try await town.line("api listener", in: api).int64("port")
            _ = try await town.line("operations listener", in: worker)
            try town.write("catalogue.json", "[{\"productId\":\"gems_pack_medium\",\n\"type\":\"iap_free\"}]")
            for program in [api, worker] {
                program.signal(SIGHUP)
                let refusal = try await town.line("catalogue refused, the old one stays", in: program)
                #expect(try refusal.string("error").contains("type"))
            }
            #expect(try await town.purchase(port, .apple).hasPrefix("200 "))
            // Gone altogether is no better.
            try FileManager.default.removeItem(atPath: town.directory + "/catalogue.json")
            api.signal(SIGHUP)
            try await eventually(within: .seconds(30), "the second refusal") {
                api.errors.contains("catalogue.json: No such file")
            }
            #expect(try await town.purchase(port, .google).hasPrefix("200 "))
            // And a good one counts at once.
            try town.write(
                "catalogue.json",
                """
                [{"productId":"renamed","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500"},\
                "displayName":"x","gemAmount":7,"position":1}]
                """)
            for program in [api, worker] {
                program.signal(SIGHUP)
                _ = try await town.line("catalogue reloaded", in: program)
                let warning = try await town.line(
                    "products left the catalogue, their receipts wait from now on", in: program)
                #expect(try warning.string("level") == "warning" && warning.int64("count") == 3)
                #expect(try warning.string("products") == "gems_pack_small, gems_pack_medium, starter_skin")
            }
            let answer = try await town.purchase(port, .apple, product: "renamed")
            #expect(answer.contains(#""granted":{"gems":7}"#), "\(answer)")
            #expect(try await town.purchase(port, .apple).hasPrefix("422 "))
            for program in [api, worker] { program.signal(SIGTERM) }
            let codes = [try await api.end(within: .seconds(30)), try await worker.end(within: .seconds(30))]
            #expect(codes == [0, 0])
        }
    }

    @Test(.timeLimit(.minutes(3))) func misspeltFieldOfTheCatalogueIsToldAtTheStartAndAtAReload() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let good = try String(contentsOfFile: town.directory + "/catalogue.json", encoding: .utf8)
            try town.write("catalogue.json", good.replacing("\"bonusGemAmount\":50", with: "\"bonusGemAmout\":50"))
            let programs = [try town.start("api"), try town.start("worker")]
            let expected = [
                "line 2: [0].bonusGemAmout: is not a known field; did you mean bonusGemAmount?",
                "line 4: [2].storeProductId.andriod: is not a known field; did you mean android?",
            ]
            for program in programs {
                #expect(try await town.line("catalogue", in: program).string("message") == expected[0])
                _ = try await town.line("started", in: program)
            }
            try town.write("catalogue.json", good.replacing("\"android\":\"skin", with: "\"andriod\":\"skin"))
            for program in programs {
                program.signal(SIGHUP)
                let warning = try await town.line(
                    "products left the catalogue, their receipts wait from now on", in: program)
                #expect(try warning.string("products") == "starter_skin (android skin_starter)")
                program.signal(SIGTERM)
                #expect(try await program.end(within: .seconds(30)) == 0)
                // Each once: not also for the look before Redis is waited for.
                for text in expected { #expect(program.errors.split(separator: "\n").count { $0.contains(text) } == 1) }
            }
        }
    }

    /// The configuration of this town has a foreign root and stores over plain http, which only a worker speaks to.
    @Test(.timeLimit(.minutes(3))) func warningsOfTheConfigurationAreLoggedOnce() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let worker = try town.start("worker")
            _ = try await town.line("started", in: worker)
            worker.signal(SIGTERM)
            #expect(try await worker.end(within: .seconds(30)) == 0)
            let warnings = worker.errors.split(separator: "\n").filter { $0.contains("\"level\":\"warning\"") }
            for path in ["apple.rootFingerprints", "apple.productionURL", "google.baseURL"] {
                #expect(warnings.count { $0.contains(path) } == 1, "\(warnings)")
            }
        }
    }

    @Test(.timeLimit(.minutes(3))) func reloadWhileRedisIsWaitedForEndsNobody() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            await town.server.kill()
            let (api, worker) = (try town.start("api"), try town.start("worker"))
            for program in [api, worker] {
                _ = try await town.line("waiting for redis", in: program)
                program.signal(SIGHUP)
            }
            // Who typed a command is told what is missing, where, and what to look at.
            for words in [["status"], ["dead", "list"], ["init"]] {
                let run = try await TellerProgram.run(words + ["--config", town.directory + "/teller.json"])
                #expect(run.code == 1 && run.output.isEmpty, "\(run)")
                for part in ["there is no Redis at \(town.server.url)", "Connection refused", "redis.url"] {
                    #expect(run.errors.contains(part), "\(run)")
                }
            }
            try await town.server.start()
            let port = try await town.line("api listener", in: api).int64("port")
            #expect(try await town.purchase(port, .apple).hasPrefix("200 "))
            for program in [api, worker] { program.signal(SIGTERM) }
            let codes = [try await api.end(within: .seconds(30)), try await worker.end(within: .seconds(30))]
            #expect(codes == [0, 0])
        }
    }

    @Test(.timeLimit(.minutes(3)), arguments: ["api", "worker"])
    func programThatWaitsForRedisEndsWhenItIsToldTo(command: String) async throws {
        try await Town.run { town in
            await town.server.kill()
            let program = try town.start(command)
            _ = try await town.line("waiting for redis", in: program)
            program.signal(SIGTERM)
            #expect(try await program.end(within: .seconds(20)) == 0)
            #expect(program.errors.contains("\"stopped\""))
        }
    }

    /// Nothing else tells: the front is ready, and workers go on emptying the lists.
    @Test(.timeLimit(.minutes(3))) func fullRedisIsCountedAsTheAlertAsks() async throws {
        let rules = try String(contentsOfFile: Repository.root + "/deploy/alerts.prometheus.yml", encoding: .utf8)
        let series = #"teller_api_refusals_total{reason="temporarily-unavailable"}"#
        #expect(rules.contains(series))
        try await Town.run { town in
            _ = try await town.teller("init")
            let api = try town.start("api")
            let port = try await town.line("api listener", in: api).int64("port")
            let inside = try await town.line("operations listener", in: api).int64("port")
            try await town.withRedis { _ = try await $0.send(["CONFIG", "SET", "maxmemory", "1"]) }
            #expect(try await town.purchase(port, .apple).hasPrefix("503 "))
            #expect(try await town.get(inside, "/readyz").status == 200)
            #expect(try await town.get(inside, "/metrics").text.contains("\n\(series) "))
            api.signal(SIGTERM)
            #expect(try await api.end(within: .seconds(30)) == 0)
        }
    }

    @Test(.timeLimit(.minutes(3))) func redisWithoutMetaIsRefusedWithAdvice() async throws {
        try await Town.run { town in
            for command in ["api", "worker", "status"] {
                let run = try await town.teller(command)
                #expect(run.code == 1, "\(command): \(run)")
                for part in [
                    "its data are lost, or it is another Redis", "Do not initialise it: restore", "never held anything",
                ] {
                    #expect(run.errors.contains(part), "\(command): \(run)")
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(3))) func initSaysWhatDiffersFromTheDataThatAreThere() async throws {
        try await Town.run { town in
            #expect(try await town.teller("init", "--buckets", "1024").code == 0)
            for same in [[], ["--buckets", "1024"]] {
                let run = try await TellerProgram.run(
                    ["init"] + same + ["--config", town.directory + "/teller.json"])
                #expect(run.code == 0 && run.output.contains("1024 claim buckets"), "\(run)")
            }
            let buckets = try await town.teller("init", "--buckets", "2048")
            #expect(buckets.code == 1 && buckets.output.contains("1024 claim buckets, not 2048"), "\(buckets)")
            let production = try await town.teller("init", "--production")
            #expect(production.code == 1 && production.output.contains("HSET 'teller:{0}:meta' production 1"))
            #expect(!production.output.contains("not 2048"))
        }
    }

    @Test(.timeLimit(.minutes(3))) func unsafeRedisIsRefusedUnlessToldOtherwise() async throws {
        try await Town.run { town in
            try await town.withRedis { redis in
                _ = try await redis.send(
                    ["CONFIG", "SET", "appendfsync", "everysec", "maxmemory-policy", "allkeys-lru"])
            }
            let refused = try await town.teller("init")
            #expect(refused.code == 1 && refused.output.isEmpty)
            let lines = refused.errors.split(separator: "\n")
            #expect(lines.count == 3 && lines.first?.contains("--allow-unsafe-redis") == true, "\(refused)")
            #expect(lines.dropFirst().allSatisfy { $0.contains("Fix: set ") }, "\(refused)")
            let forced = try await town.teller("init", "--allow-unsafe-redis")
            #expect(forced.code == 0, "\(forced)")
            let api = try await town.teller("api")
            #expect(api.code == 1 && api.errors.contains("appendfsync"), "\(api)")
        }
    }

    @Test(.timeLimit(.minutes(3))) func anAPIOnAWipedRedisIsNotReady() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let api = try town.start("api")
            let port = try await town.line("operations listener", in: api).int64("port")
            try await eventually("ready") { try await town.get(port, "/readyz").status == 200 }
            let redis = RedisConnection(
                RedisConfiguration(address: try RedisAddress(url: town.server.url)), logger: .disabled, metrics: nil)
            redis.start()
            try await redis.ready(within: .seconds(20))
            _ = try await redis.send(["DEL", "teller:{0}:meta"])
            await redis.stop()
            try await eventually("not ready, and why") {
                let answer = try await town.get(port, "/readyz")
                return answer.status == 503 && answer.text.contains("not the Redis this process was started for")
            }
            api.signal(SIGTERM)
            #expect(try await api.end(within: .seconds(30)) == 0)
        }
    }

    @Test(.timeLimit(.minutes(3))) func redisThatBecomesUnsafeIsRefusedAndEverybodySaysWhy() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            let programs = [try town.start("api"), try town.start("worker")]
            let redis = RedisConnection(
                RedisConfiguration(address: try RedisAddress(url: town.server.url)), logger: .disabled, metrics: nil)
            redis.start()
            try await redis.ready(within: .seconds(20))
            for program in programs { _ = try await town.line("started", in: program) }
            for (value, status) in [("everysec", 503), ("always", 200)] {
                _ = try await redis.send(["CONFIG", "SET", "appendfsync", .string(value)])
                for kind in ["normal", "pubsub"] {
                    _ = try await redis.send(["CLIENT", "KILL", "TYPE", .string(kind), "SKIPME", "yes"])
                }
                for program in programs {
                    let port = try await town.line("operations listener", in: program).int64("port")
                    try await eventually("/readyz to say \(status) and why") {
                        let answer = try await town.get(port, "/readyz")
                        return answer.status == status
                            && (status == 200 || answer.text.contains("Fix: set appendfsync always in redis.conf"))
                    }
                }
            }
            await redis.stop()
            for program in programs {
                program.signal(SIGTERM)
                #expect(try await program.end(within: .seconds(30)) == 0)
                let said = program.errors.split(separator: "\n").count { $0.contains("Fix: set appendfsync") }
                #expect(said == 1, "\(program.errors)")
            }
        }
    }

    @Test(.timeLimit(.minutes(3))) func brokenCatalogueAtTheStartIsRefused() async throws {
        try await Town.run { town in
            _ = try await town.teller("init")
            try town.write("catalogue.json", "[{]")
            for command in ["api", "worker"] {
                let run = try await town.teller(command)
                #expect(run.code == 1 && run.errors.contains("line 1"), "\(command): \(run)")
            }
        }
    }
}
