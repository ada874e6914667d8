import Lab
import ServiceRuntime
import Testing

/// Real processes, really killed.
///
/// One after the other: each test starts a whole Teller, and the promises about times (5 s, 2 s) are about a machine that
/// does one such thing at a time. Nothing here depends on how fast the machine is but those promises.
@Suite(.serialized) struct RealProcessTests {}

extension RealProcessTests {
    /// A worker that ends takes nothing with it.
    static let orphanPromise: Duration = .seconds(5)
    /// A store so slow that what was asked is not answered before the test has seen it and done its next step.
    static let slowStore: Duration = .seconds(5)
    /// An outage of Redis ends when Redis is back.
    static let resumePromise: Duration = .seconds(2)
}
