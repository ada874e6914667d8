/// Pauses between attempts to connect: full jitter, so that a thousand clients of a server that came back do not all
/// arrive in the same instant ("Exponential Backoff And Jitter", AWS Architecture Blog).
struct Backoff {
    /// Upper bound of the first pause.
    static let first = Duration.milliseconds(50)
    /// Upper bound of every later pause: with an attempt of at most 1 s that began in vain just before the server's return,
    /// consuming starts again within 2 s.
    static let last = Duration.milliseconds(500)

    private var attempts = 0

    /// The upper bound of the next pause.
    var bound: Duration { min(Self.last, Self.first * (1 << min(attempts, 10))) }

    /// Draws the next pause: evenly from zero to the bound, which then doubles.
    mutating func next() -> Duration {
        let drawn = bound * Double.random(in: 0...1)
        attempts += 1
        return drawn
    }

    mutating func reset() { attempts = 0 }
}
