import Testing

@testable import ServiceRuntime

@Suite struct ArgumentsTests {
    private let command = Command(
        "load", "puts load on", operands: "",
        options: [
            .init("rate", "R", "how fast"), .init("api", "URL", "where", isRepeatable: true),
            .init("quiet", nil, "no output"),
        ]
    ) { _ in 0 }

    @Test func optionsAreReadInBothSpellings() throws {
        let arguments = try Arguments(["--rate=2.5", "--quiet"], of: command)
        #expect(try arguments.number("rate", in: 0...10, default: 1) == 2.5)
        #expect(arguments.has("quiet") && arguments.string("api") == nil && arguments.strings("api").isEmpty)
        #expect(try Arguments(["--rate", "3"], of: command).integer("rate", in: 0...10, default: 1) == 3)
    }

    @Test func aRepeatableOptionKeepsAllValuesInOrder() throws {
        let arguments = try Arguments(["--api", "one", "--api=two"], of: command)
        #expect(arguments.strings("api") == ["one", "two"])
        #expect(arguments.string("api") == "one")
    }

    @Test(arguments: [
        ["--rate", "1", "--rate", "2"], ["--speed", "1"], ["--rate"], ["--quiet=yes"], ["operand"],
    ]) func aWrongCallIsRefused(_ words: [String]) {
        #expect(throws: UsageError.self) { _ = try Arguments(words, of: command) }
    }

    @Test(arguments: ["11", "-1", "x", "1.5"]) func aNumberOutOfItsRangeIsRefused(_ text: String) throws {
        let arguments = try Arguments(["--rate", text], of: command)
        #expect(throws: UsageError.self) { _ = try arguments.integer("rate", in: 0...10, default: 1) }
    }
}
