import ServiceRuntime
import Signing
import Testing

@Suite struct SignedDataVerifierTests {
    private let chain: MintedChain
    private let verifier: SignedDataVerifier

    init() throws {
        chain = try Forge.genuine.get()
        verifier = SignedDataVerifier(roots: chain.trustedRoots, chainCacheMax: 4)
    }

    @Test func aGenuineObjectGivesItsPayloadAndDate() throws {
        let verified = try verifier.verify(chain.sign(Forge.payload), now: Forge.now)
        #expect(verified.bytes == Forge.payload)
        #expect(verified.signedDate == Forge.now - .milliseconds(1250))
        #expect(try verified.json.string("transactionId") == "2000001234500777")
    }

    @Test func bytesAndTextAreJudgedAlike() throws {
        let jws = try chain.sign(Forge.payload)
        let verified = try verifier.verify(Array(jws.utf8), now: Forge.now)
        #expect(verified.bytes == Forge.payload)
    }

    /// Phones keep transactions for years; the leaf that signed them expires.
    @Test func anObjectSignedBeforeItsLeafExpiredIsStillGood() throws {
        let jws = try chain.sign(Forge.payload)
        let fiveYears = Duration.seconds(5 * 365 * 86_400)
        _ = try verifier.verify(jws, now: Forge.now + fiveYears)
    }

    @Test func aClockThatIsFourMinutesBehindIsTolerated() throws {
        _ = try verifier.verify(chain.sign(Forge.payload), now: Forge.now - .seconds(240))
    }

    @Test func anAppTransactionIsJudgedAtItsCreationDate() throws {
        let created = Forge.now - .seconds(5)
        let jws = try chain.sign(Array(#"{"receiptType":"Production","receiptCreationDate":\#(created.value)}"#.utf8))
        let verified = try verifier.verify(jws, now: Forge.now)
        #expect(verified.signedDate == created)
    }

    @Test func unknownHeaderMembersAreIgnored() throws {
        let certificates = [chain.leaf, chain.intermediate, chain.root].map { "\"\(Base64.encode($0.der))\"" }
        let header = #"{"kid":"x","typ":"JWT","alg":"ES256","x5c":[\#(certificates.joined(separator: ","))]}"#
        let jws = try Forge.sign(header: Array(header.utf8), by: chain)
        _ = try verifier.verify(jws, now: Forge.now)
    }

    /// The real root, intermediate and a real receipt signing leaf: all that is missing is Apple's key.
    @Test func applesOwnCertificatesPassEverythingButTheSignature() {
        let x5c = [AppleCertificates.leaf, AppleCertificates.intermediate, AppleCertificates.root]
        let header = #"{"alg":"ES256","x5c":["\#(x5c.joined(separator: "\",\""))"]}"#
        let payload = Forge.payload(signed: AppleCertificates.validAt)
        let signature = [UInt8](repeating: 7, count: 64)
        let jws = [Array(header.utf8), payload, signature].map { Base64URL.encode($0) }.joined(separator: ".")
        let explanation = SignedDataVerifier().explain(jws, now: AppleCertificates.validAt)
        #expect(explanation.error == .badSignature)
        #expect(explanation.checks.last?.outcome == .failed)
        #expect(explanation.checks.dropLast().allSatisfy { $0.outcome == .passed })
        #expect(explanation.certificates.last?.sha256 == TrustedRoots.apple.fingerprints.first)
    }

    // MARK: The cache

    @Test func aSecondObjectOfTheSameChainCostsNoPathValidation() throws {
        for round in 0..<5 {
            let payload = Forge.payload(signed: Forge.now - .milliseconds(round))
            _ = try verifier.verify(chain.sign(payload), now: Forge.now)
        }
        #expect(verifier.pathValidations == 1)
        #expect(verifier.cachedChains == 1)
    }

    @Test func theSameCertificatesUnderAnotherHeaderCostNoPathValidation() throws {
        _ = try verifier.verify(chain.sign(Forge.payload), now: Forge.now)
        let certificates = [chain.leaf, chain.intermediate, chain.root].map { "\"\(Base64.encode($0.der))\"" }
        for kid in ["a", "b", "c"] {
            let header = #"{"kid":"\#(kid)","alg":"ES256","x5c":[\#(certificates.joined(separator: ","))]}"#
            _ = try verifier.verify(
                Forge.sign(header: Array(header.utf8), by: chain), now: Forge.now)
        }
        #expect(verifier.pathValidations == 1)
    }

    @Test func aCachedChainIsStillHeldAgainstTheDateOfEachObject() throws {
        _ = try verifier.verify(chain.sign(Forge.payload), now: Forge.now)
        let twoYears = Duration.seconds(2 * 365 * 86_400)
        for signed in [Forge.now + twoYears, Forge.now - twoYears] {
            let jws = try chain.sign(Forge.payload(signed: signed))
            #expect(throws: SignedDataError.expiredAtSigning) {
                try verifier.verify(jws, now: Forge.now + twoYears)
            }
        }
        #expect(verifier.pathValidations == 1)
    }

    @Test func aCachedChainDoesNotVouchForItsSignature() throws {
        let jws = try chain.sign(Forge.payload)
        _ = try verifier.verify(jws, now: Forge.now)
        let other = try chain.sign(Forge.payload(signed: Forge.now))
        let mixed = Forge.replacing(jws, segment: 2, with: Forge.signature(of: other))
        #expect(throws: SignedDataError.badSignature) {
            try verifier.verify(mixed, now: Forge.now)
        }
    }

    @Test func theLeastRecentlyUsedChainMakesRoom() throws {
        let chains = try (0..<5).map { _ in try Forge.chain() }
        for chain in chains.prefix(4) {
            _ = try verifier.verify(chain.sign(Forge.payload), now: Forge.now)
        }
        // The first is used again through another header, so the second is the oldest when the fifth arrives.
        let first =
            MintedChain.header(x5c: [chains[0].leaf.der, chains[0].intermediate.der, chains[0].root.der]) + [0x20]
        _ = try verifier.verify(Forge.sign(header: first, by: chains[0]), now: Forge.now)
        _ = try verifier.verify(chains[4].sign(Forge.payload), now: Forge.now)
        #expect(verifier.cachedChains == 4)
        #expect(verifier.pathValidations == 5)
        _ = try verifier.verify(
            Forge.sign(header: first + [0x20], by: chains[0]), now: Forge.now)
        #expect(verifier.pathValidations == 5)
        let second =
            MintedChain.header(x5c: [chains[1].leaf.der, chains[1].intermediate.der, chains[1].root.der]) + [0x20]
        _ = try verifier.verify(Forge.sign(header: second, by: chains[1]), now: Forge.now)
        #expect(verifier.pathValidations == 6)
    }

    @Test func aStreamOfForgedHeadersDoesNotPushOutTheGenuineOne() throws {
        let jws = try chain.sign(Forge.payload)
        _ = try verifier.verify(jws, now: Forge.now)
        let certificates = [chain.leaf, chain.intermediate, chain.root].map { "\"\(Base64.encode($0.der))\"" }
        for round in 0..<50 {
            let header = #"{"kid":"\#(round)","alg":"ES256","x5c":[\#(certificates.joined(separator: ","))]}"#
            let forged = Forge.replacing(jws, segment: 0, with: Array(header.utf8))
            #expect(throws: SignedDataError.badSignature) {
                try verifier.verify(forged, now: Forge.now)
            }
        }
        #expect(verifier.pathValidations == 1)
        #expect(verifier.cachedChains == 1)
    }

    @Test func aRefusedChainIsNotCached() throws {
        let developer = try Forge.chain(leaf: { $0.markers = [] })
        for _ in 0..<3 {
            #expect(throws: SignedDataError.leafMarkerMissing) {
                try verifier.verify(developer.sign(Forge.payload), now: Forge.now)
            }
        }
        #expect(verifier.cachedChains == 0)
    }

    // MARK: Explanations

    @Test func anExplanationOfAGenuineObjectPassesEveryCheck() throws {
        let explanation = verifier.explain(try chain.sign(Forge.payload), now: Forge.now)
        #expect(explanation.isVerified)
        #expect(explanation.checks.map(\.checkpoint) == SignedDataCheckpoint.allCases)
        #expect(explanation.checks.allSatisfy { $0.outcome == .passed && !$0.detail.isEmpty })
        #expect(
            explanation.certificates.map(\.subject) == [
                "CN=Emulated Receipt Signing", "CN=Emulated Developer Relations CA", "CN=Emulated Root CA",
            ])
        #expect(try explanation.payload?.string("transactionId") == "2000001234500777")
    }

    @Test func anExplanationNamesTheFailedCheckAndReachesNoneBehindIt() throws {
        let rogue = try Forge.rogue.get()
        let explanation = verifier.explain(try rogue.sign(Forge.payload), now: Forge.now)
        let outcomes = explanation.checks.map(\.outcome)
        let failed = try #require(outcomes.firstIndex(of: .failed))
        #expect(explanation.checks[failed].checkpoint == .root)
        #expect(explanation.checks[failed].detail.contains(rogue.root.fingerprint))
        #expect(outcomes[..<failed].allSatisfy { $0 == .passed })
        #expect(outcomes[(failed + 1)...].allSatisfy { $0 == .notReached })
        #expect(explanation.payload != nil)
    }

    @Test func anExplanationOfRubbishSaysSo() {
        let explanation = verifier.explain("rubbish", now: Forge.now)
        #expect(explanation.error == .notCompactJWS)
        #expect(explanation.header == nil && explanation.payload == nil && explanation.certificates.isEmpty)
    }

    // MARK: Roots

    @Test(arguments: [
        "63343ABFB89A6A03EBB57E9B3F5FA7BE7C4F5C756F3017B3A8C488C3653E9179",
        "63:34:3a:bf:b8:9a:6a:03:eb:b5:7e:9b:3f:5f:a7:be:7c:4f:5c:75:6f:30:17:b3:a8:c4:88:c3:65:3e:91:79",
    ])
    func aFingerprintIsReadWithOrWithoutColons(text: String) throws {
        #expect(try TrustedRoots(sha256Fingerprints: [text]).isOnlyApple)
        #expect(
            Digest.sha256(Base64.decode(AppleCertificates.root) ?? []) == Digest.bytes(hex: text.filter { $0 != ":" }))
    }

    @Test func aTextThatIsNoFingerprintIsNamedByItsPlace() throws {
        let good = TrustedRoots.apple.fingerprints
        for broken in ["", "6334", good[0] + "00", String(good[0].dropLast()) + "g"] {
            #expect(throws: TrustedRoots.InvalidFingerprint(index: 1)) {
                try TrustedRoots(sha256Fingerprints: good + [broken])
            }
        }
        let roots = try TrustedRoots(sha256Fingerprints: good + [chain.root.fingerprint])
        #expect(!roots.isOnlyApple)
    }
}
