import Testing

@testable import Jobs

@Suite struct JobEntryTests {
    @Test func firstEntryReadsBack() throws {
        let bytes = JobEntry.first(submission: "0-ab", firstSeenMs: 1_790_000_000_000, payload: Array(#"{"n":1}"#.utf8))
        let entry = try #require(JobEntry(bytes))
        #expect(entry.submission == "0-ab")
        #expect(entry.firstSeenMs == 1_790_000_000_000)
        #expect(Array(bytes[entry.payloadOffset...]) == Array(#"{"n":1}"#.utf8))
    }

    @Test(arguments: [#"{"a":1}"#, "", "T", "T1", "garbage", "T2 - 0 1 0 0\nx", " T1 - 0 1 0 0\nx", "[1]"])
    func anythingElseIsABarePayload(_ text: String) throws {
        let entry = try #require(JobEntry(Array(text.utf8)))
        #expect(entry.payloadOffset == 0 && entry.submission == nil && entry.firstSeenMs == nil)
    }

    @Test func everyFieldIsRead() throws {
        let entry = try #require(JobEntry(Array("T1 - 3 17 2 1 salt\n{}".utf8)))
        #expect(entry.submission == nil && entry.attempts == 3 && entry.firstSeenMs == 17)
        #expect(entry.crashes == 2 && entry.aloneCrashes == 1 && entry.payloadOffset == 19)
    }

    @Test(arguments: [
        "T1 ", "T1 - 0 1 0 0", "T1 - 0 1 0\n{}", "T1 - x 1 0 0\n{}", "T1 - -1 1 0 0\n{}", "T1 a/b 0 1 0 0\n{}",
        "T1 - 0 1 0 99999999999999999999\n{}", "T1  0 1 0 0\n{}", "T1 - 0 1 0 \n{}",
        "T1 " + String(repeating: "a", count: 600) + " 0 1 0 0\n{}",
    ])
    func headerThatCannotBeReadIsNotMistakenForAPayload(_ text: String) {
        #expect(JobEntry(Array(text.utf8)) == nil)
    }

    @Test func workerNamesDifferFromRunToRun() throws {
        let (one, other) = (WorkerID(), WorkerID())
        #expect(one != other)
        #expect(WorkerID(one.text) == one)
        #expect(one.text.split(separator: ":").count == 3)
        #expect(WorkerID("a b") == nil)
    }
}
