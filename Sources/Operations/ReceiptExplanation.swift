public import Commerce
public import ServiceRuntime
public import Signing

/// What can be said about a receipt without asking a store: what `teller verify` prints.
///
/// A signed transaction is judged by the code that judges real ones, check by check; then come revocation and the checks
/// of the app (bundle id, environment). Legacy app receipts and purchase tokens prove nothing offline, and that is said.
public struct ReceiptExplanation {
    /// What the receipt is held against.
    public struct Expectation: Sendable {
        /// Trusted roots; Apple's unless told otherwise.
        public var roots: TrustedRoots
        /// The bundle id it must carry; nil skips the check.
        public var bundleID: String?
        /// The environment it must carry; nil skips the check.
        public var environment: StoreEnvironment?
        /// The time of judgement.
        public var at: UnixMilliseconds

        /// Trusts another root than Apple's, by its fingerprint (64 hex digits, with or without colons); false when it is none.
        public mutating func trust(fingerprint: String) -> Bool {
            guard let roots = try? TrustedRoots(sha256Fingerprints: [fingerprint]) else { return false }
            self.roots = roots
            return true
        }

        /// States what is expected.
        public init(
            roots: TrustedRoots = .apple, bundleID: String? = nil, environment: StoreEnvironment? = nil,
            at: UnixMilliseconds = .now
        ) {
            self.roots = roots
            self.bundleID = bundleID
            self.environment = environment
            self.at = at
        }
    }

    /// Whether everything that could be checked offline held.
    public let isVerified: Bool
    /// The whole explanation, line by line.
    public let text: String

    /// Explains a receipt, or the one in the `receiptData` of a request or of a job.
    public init(_ text: String, _ expectation: Expectation) {
        let receipt = Self.receipt(in: text.trimmingWhitespace)
        let inferred: Receipt
        do throws(ReceiptMistake) {
            inferred = try Receipt.infer(receipt).receipt
        } catch {
            isVerified = false
            self.text = "Not a receipt: \(error.reason)."
            return
        }
        switch inferred.kind {
        case .signedTransaction:
            (isVerified, self.text) = Self.explain(inferred.text, expectation)
        case .appReceipt:
            isVerified = false
            self.text =
                "A legacy app receipt (\(inferred.text.utf8.count) bytes of base64). Only Apple's verifyReceipt can judge it."
        case .purchaseToken:
            isVerified = false
            self.text = "A purchase token of Google Play. It proves nothing by itself; only Google's API can judge it."
        }
    }

    /// What a request or a job holds as its receipt; any other text as it is.
    private static func receipt(in text: String) -> String {
        guard text.hasPrefix("{"), let view = try? JSONView.parse(text, depthMax: Limits.bodyDepthMax),
            let held = try? view["receiptData"]?.string()
        else { return text }
        return held.trimmingWhitespace
    }

    private static func explain(_ jws: String, _ expectation: Expectation) -> (Bool, String) {
        let explanation = SignedDataVerifier(roots: expectation.roots).explain(jws, now: expectation.at)
        var checks = TextTable(["check", "outcome", "detail"])
        for check in explanation.checks {
            checks.add([check.checkpoint.rawValue, check.outcome.rawValue, check.detail])
        }
        var refusals: [String] = []
        if let error = explanation.error { refusals.append(error.explanation) }
        let revocation = revocation(explanation.payload)
        checks.add(["revocation", revocation.outcome.rawValue, revocation.detail])
        if explanation.isVerified, revocation.outcome != .passed { refusals.append("it was \(revocation.detail)") }
        var unasked: [String] = []
        var isForUs = true
        for (name, key, expected) in [
            ("bundle-id", "bundleId", expectation.bundleID),
            ("environment", "environment", expectation.environment?.rawValue),
        ] {
            let found = (try? explanation.payload?.optionalString(key)) ?? nil
            guard let expected else {
                checks.add([name, "not asked", found ?? "absent"])
                unasked.append("--\(name)")
                continue
            }
            let holds = found == expected
            if !holds { isForUs = false }
            checks.add([name, holds ? "passed" : "failed", "\(found ?? "absent"), expected \(expected)"])
        }
        if explanation.isVerified, !isForUs { refusals.append("it is for another app or environment") }
        let isVerified = refusals.isEmpty
        var parts = ["A signed transaction of Apple's StoreKit 2.", "", checks.text]
        parts += certificates(explanation)
        if let payload = explanation.payload {
            parts += ["", "payload (\(explanation.isVerified ? "signed" : "NOT TO BE TRUSTED"))", fields(payload)]
        }
        parts += ["", isVerified ? verified(unasked) : "REFUSED: " + refusals.joined(separator: "; ")]
        return (isVerified, parts.joined(separator: "\n"))
    }

    /// A purchase that Apple took back is signed like any other.
    private static func revocation(_ payload: JSONView?) -> (outcome: SignedDataCheck.Outcome, detail: String) {
        guard let payload else { return (.notReached, "an earlier check failed") }
        guard let date = payload["revocationDate"], date.kind != .null else { return (.passed, "none in the receipt") }
        let time = (try? date.int64()).map { " at \(UnixMilliseconds($0).rfc3339)" }
        return (.failed, "refunded or revoked" + (time ?? ""))
    }

    /// The last line of a receipt that holds: whose it is was perhaps not asked.
    private static func verified(_ unasked: [String]) -> String {
        guard !unasked.isEmpty else { return "VERIFIED" }
        let question = unasked.count == 2 ? "app and environment" : unasked == ["--bundle-id"] ? "app" : "environment"
        return "VERIFIED as Apple's, but nobody asked for which \(question): give " + unasked.joined(separator: " and ")
    }

    private static func certificates(_ explanation: SignedDataExplanation) -> [String] {
        guard !explanation.certificates.isEmpty else { return [] }
        var table = TextTable(["certificate", "valid", "sha256"])
        for certificate in explanation.certificates {
            let valid = certificate.validSeconds.map {
                UnixMilliseconds(seconds: $0.lowerBound).rfc3339.prefix(10) + " to "
                    + UnixMilliseconds(seconds: $0.upperBound).rfc3339.prefix(10)
            }
            table.add([certificate.subject, valid.map(String.init) ?? "unreadable", certificate.sha256])
        }
        return ["", table.text]
    }

    /// Every field, milliseconds also as a date.
    private static func fields(_ payload: JSONView) -> String {
        var table = TextTable(["field", "value"])
        for member in (try? payload.members()) ?? [] {
            var value = member.value.serialized()
            if member.key.hasSuffix("Date"), let date = try? member.value.int64() {
                value += "  (\(UnixMilliseconds(date).rfc3339))"
            }
            table.add([member.key, value])
        }
        return table.text
    }
}

extension String {
    fileprivate var trimmingWhitespace: String {
        String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
