/// Runs `body` and then `stop`, also when `body` throws: what a test started must not outlive it.
public func running<Answer: Sendable>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Answer, stop: () async -> Void
) async throws -> Answer {
    do {
        let answer = try await body()
        await stop()
        return answer
    } catch {
        await stop()
        throw error
    }
}
