import ServiceRuntime
import Testing

@Suite struct SpellingTests {
    private static let known = ["bonusGemAmount", "gemAmount", "badge", "ios", "android", "catalogue", "type"]

    @Test(arguments: [
        ("bonusGemAmout", "bonusGemAmount"), ("gemamount", "gemAmount"), ("GEMAMUONT", "gemAmount"),
        ("gemsAmounts", "gemAmount"), ("andriod", "android"), ("Android", "android"), ("iOS", "ios"), ("io", "ios"),
        ("catalog", "catalogue"), ("bagde", "badge"), ("tipe", "type"),
    ])
    func slipIsSeenThrough(written: String, meant: String) {
        #expect(Spelling.guess(written, among: Self.known) == meant)
    }

    /// Other words, and what a known name has in common with everything short.
    @Test(arguments: [
        "", "x", "web", "amazon", "image", "tier", "coinAmount", "goldAmount", "bonus", "date", "cataloguesss",
        "ägeamt",
    ])
    func anotherWordIsNoSlip(written: String) { #expect(Spelling.guess(written, among: Self.known) == nil) }

    @Test func theNearestNameIsMeant() {
        #expect(Spelling.guess("gemAmounts", among: ["gemsAmount", "gemAmount", "semAmounts"]) == "gemAmount")
        #expect(Spelling.guess("gemAmount", among: []) == nil)
    }
}
