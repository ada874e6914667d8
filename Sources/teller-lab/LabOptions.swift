import Foundation
import Lab
import ServiceRuntime

/// The options that several commands share.
enum LabOptions {
    /// Where everything is.
    static let places = [
        Command.Option("redis", "URL", "the Redis under test: redis://[user[:password]@]host:port, or unix:///path"),
        .init("redis-password-file", "FILE", "reads its password from a file"),
        .init("emulator", "URL", "the store emulator that sells"),
        .init("catalogue", "FILE", "what Teller under test sells (default deploy/catalogue.example.json)"),
        .init("json", "FILE", "also writes the report as JSON"),
    ]
    /// Of the commands that audit.
    static let shared =
        places + [
            .init("settle", "SECONDS", "how long the lists get to drain before the audit (default 60)"),
            .init(
                "client-consumes", nil,
                "the Teller under test has google.consume: client; what Google heard is not audited"),
        ]

    static func redis(_ arguments: Arguments) throws -> LabRedis {
        guard let url = arguments.string("redis") else { throw UsageError("--redis URL is missing") }
        return LabRedis(
            url: url, password: try arguments.string("redis-password-file").map { try secret(inFile: $0) })
    }

    static func emulator(_ arguments: Arguments) throws -> String {
        guard let url = arguments.string("emulator") else { throw UsageError("--emulator URL is missing") }
        return url
    }

    static func catalogue(_ arguments: Arguments) throws -> LoadCatalogue {
        try LoadPlan.catalogue(ofFile: arguments.string("catalogue") ?? "deploy/catalogue.example.json")
    }

    static func audit(_ arguments: Arguments) throws -> Audit.Configuration {
        var configuration = Audit.Configuration(
            redis: try redis(arguments), emulatorURL: try emulator(arguments), catalogue: try catalogue(arguments))
        configuration.settle = .seconds(try arguments.number("settle", in: 0...86_400, default: 60))
        configuration.consumesAtServer = !arguments.has("client-consumes")
        return configuration
    }

    static func secret(inFile path: String) throws -> String {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw UsageError("\(path): cannot be read")
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    static func writeJSON(_ arguments: Arguments, load: LoadReport?, audit: AuditReport?) throws {
        try writeJSON(arguments) { json in
            if let load { json.member("load", object: { load.write(to: &$0) }) }
            if let audit { json.member("audit", object: { audit.write(to: &$0) }) }
        }
    }

    /// Writes an object with these members to the file that `--json` names, if it does.
    static func writeJSON(_ arguments: Arguments, members: (inout JSONWriter) -> Void) throws {
        guard let path = arguments.string("json") else { return }
        var json = JSONWriter(capacity: 1 << 16)
        json.object(members)
        guard FileManager.default.createFile(atPath: path, contents: Data(json.bytes)) else {
            throw UsageError("\(path): cannot be written")
        }
    }
}
