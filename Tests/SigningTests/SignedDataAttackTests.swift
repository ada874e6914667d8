import ServiceRuntime
import Signing
import Testing

/// The attack table of forged signed objects, one test a row.
///
/// Goal: nothing that Apple did not sign as a receipt is accepted, and each forgery dies at the check that is meant
/// for it. Method: a chain made here stands for Apple's; every forgery is fed to a verifier that trusts its root,
/// twice, because the second time a cache could have learnt something wrong from the first.
@Suite struct SignedDataAttackTests {
    private func expectRefused(_ forged: ForgedObject) throws {
        let verifier = SignedDataVerifier(roots: try Forge.genuine.get().trustedRoots)
        for _ in 0..<2 {
            #expect(throws: forged.expected, "\(forged.name)") {
                try verifier.verify(forged.text, now: Forge.now)
            }
        }
        // A verifier that knows the genuine chain must refuse it as well.
        _ = try verifier.verify(Forge.genuine.get().sign(Forge.payload), now: Forge.now)
        #expect(throws: forged.expected, "\(forged.name), after a genuine one") {
            try verifier.verify(forged.text, now: Forge.now)
        }
    }

    // Row 1 and 2.
    @Test(arguments: try AlgorithmForgeries.all())
    func anotherAlgorithmIsRefused(forged: ForgedObject) throws { try expectRefused(forged) }

    // Row 3 and 4.
    @Test(arguments: try RootForgeries.all())
    func aChainThatDoesNotLeadToThePinnedRootIsRefused(forged: ForgedObject) throws { try expectRefused(forged) }

    // Row 5.
    @Test(arguments: try MarkerForgeries.all())
    func aCertificateForAnotherPurposeUnderTheSameRootIsRefused(forged: ForgedObject) throws {
        try expectRefused(forged)
    }

    // Row 6.
    @Test(arguments: try AuthorityForgeries.all())
    func anIntermediateThatMayNotIssueIsRefused(forged: ForgedObject) throws { try expectRefused(forged) }

    // Row 7.
    @Test(arguments: try ChainLengthForgeries.all())
    func aChainOfAnotherShapeIsRefused(forged: ForgedObject) throws { try expectRefused(forged) }

    // Row 9.
    @Test(arguments: try DateForgeries.all())
    func aDateAtWhichTheCertificatesWereNotValidIsRefused(forged: ForgedObject) throws { try expectRefused(forged) }

    // Row 10.
    @Test(arguments: try SignatureForgeries.all())
    func anythingButTheLeafsSignatureOfExactlyTheseBytesIsRefused(forged: ForgedObject) throws {
        try expectRefused(forged)
    }

    // Row 18, as far as the signature level sees it.
    @Test(arguments: try ShapeForgeries.all())
    func textThatIsNoSignedObjectIsRefused(forged: ForgedObject) throws { try expectRefused(forged) }
}

enum AlgorithmForgeries {
    static func all() throws -> [ForgedObject] {
        let chain = try Forge.genuine.get()
        let ders = [chain.leaf.der, chain.intermediate.der, chain.root.der]
        let input = { (algorithm: String) in
            Base64URL.encode(MintedChain.header(x5c: ders, algorithm: algorithm)) + "."
                + Base64URL.encode(Forge.payload)
        }
        var all = [ForgedObject("none without signature", input("none") + ".", .algorithmNotAllowed)]
        let secret = Array(chain.leaf.publicKeyPEM.utf8)
        let hmac = Base64URL.encode(Forge.hmac(key: secret, input("HS256")))
        all.append(
            ForgedObject("HS256 with the public key as secret", input("HS256") + "." + hmac, .algorithmNotAllowed))
        for algorithm in ["RS256", "ES384", "es256", "ES256 ", "", "None", "PS256"] {
            let text = try Forge.sign(header: MintedChain.header(x5c: ders, algorithm: algorithm), by: chain)
            all.append(ForgedObject("alg \(algorithm)", text, .algorithmNotAllowed))
        }
        let certificates = ders.map { "\"\(Base64.encode($0))\"" }.joined(separator: ",")
        for (name, members) in [
            ("no alg", ""), ("alg null", #""alg":null,"#), ("alg a list", #""alg":["ES256"],"#),
            ("alg with NUL is not JSON here", #""alg":"ES256\u0000","#), ("two algs", #""alg":"none","alg":"ES256","#),
            ("unknown critical extension", #""alg":"ES256","crit":["exp"],"#),
        ] {
            let header = Array(#"{\#(members)"x5c":[\#(certificates)]}"#.utf8)
            let isJSON = (try? JSONView.parse(header)) != nil
            let text = try Forge.sign(header: header, by: chain)
            all.append(ForgedObject(name, text, isJSON ? .algorithmNotAllowed : .badHeader))
        }
        return all
    }
}

enum RootForgeries {
    static func all() throws -> [ForgedObject] {
        let genuine = try Forge.genuine.get()
        let rogue = try Forge.rogue.get()
        let underRogue = SignedDataError.untrustedRoot(sha256: rogue.root.fingerprint)
        let borrowedRoot = try MintedChain(
            root: genuine.root, intermediate: rogue.intermediate, leaf: rogue.leaf)
        let borrowedAuthority = try MintedChain(
            root: genuine.root, intermediate: genuine.intermediate, leaf: rogue.leaf)
        var tampered = genuine.intermediate.der
        tampered[tampered.count - 1] ^= 1
        let tamperedHeader = MintedChain.header(x5c: [genuine.leaf.der, tampered, genuine.root.der])
        var flippedRoot = genuine.root.der
        flippedRoot[flippedRoot.count - 1] ^= 1
        let flippedHeader = MintedChain.header(x5c: [genuine.leaf.der, genuine.intermediate.der, flippedRoot])
        let swapped = MintedChain.header(x5c: [genuine.intermediate.der, genuine.leaf.der, genuine.root.der])
        return [
            ForgedObject("own root with both markers", try rogue.sign(Forge.payload), underRogue),
            ForgedObject(
                "own leaf and intermediate, genuine root", try borrowedRoot.sign(Forge.payload),
                .pathInvalid("unable to get local issuer certificate")),
            ForgedObject(
                "own leaf, genuine intermediate and root", try borrowedAuthority.sign(Forge.payload),
                .pathInvalid("unable to get local issuer certificate")),
            ForgedObject(
                "genuine intermediate with a broken signature", try Forge.sign(header: tamperedHeader, by: genuine),
                .pathInvalid("certificate signature failure")),
            ForgedObject(
                "genuine root with one bit flipped", try Forge.sign(header: flippedHeader, by: genuine),
                .untrustedRoot(sha256: Digest.hex(Digest.sha256(flippedRoot)))),
            ForgedObject(
                "leaf and intermediate swapped", try Forge.sign(header: swapped, by: genuine),
                .pathInvalid("it does not lead through the intermediate")),
        ]
    }
}

enum MarkerForgeries {
    static func all() throws -> [ForgedObject] {
        let developer = try Forge.chain(leaf: { $0.markers = [] })
        let other = try Forge.chain(leaf: { $0.markers = ["1.2.840.113635.100.6.11.2"] })
        let swapped = try Forge.chain(leaf: { $0.markers = [AppleMarker.developerRelations] })
        let plain = try Forge.chain(intermediate: { $0.markers = [] })
        let otherAuthority = try Forge.chain(intermediate: { $0.markers = ["1.2.840.113635.100.6.2.2"] })
        return [
            ForgedObject("developer certificate", try developer.sign(Forge.payload), .leafMarkerMissing),
            ForgedObject("neighbouring leaf marker", try other.sign(Forge.payload), .leafMarkerMissing),
            ForgedObject("intermediate's marker on the leaf", try swapped.sign(Forge.payload), .leafMarkerMissing),
            ForgedObject("authority without marker", try plain.sign(Forge.payload), .intermediateMarkerMissing),
            ForgedObject(
                "neighbouring authority marker", try otherAuthority.sign(Forge.payload), .intermediateMarkerMissing),
        ]
    }
}

enum AuthorityForgeries {
    static func all() throws -> [ForgedObject] {
        let genuine = try Forge.genuine.get()
        let below = try genuine.leaf.issue(.leaf(around: Forge.now))
        let leafAsAuthority = try MintedChain(root: genuine.root, intermediate: genuine.leaf, leaf: below)
        let notAuthority = try Forge.chain(intermediate: { $0.basicConstraints = "CA:FALSE" })
        let silent = try Forge.chain(intermediate: { $0.basicConstraints = nil })
        let noSigning = try Forge.chain(intermediate: { $0.keyUsage = "cRLSign" })
        let authorityLeaf = try Forge.chain(
            intermediate: { $0.basicConstraints = "CA:TRUE" },
            leaf: {
                $0.basicConstraints = "CA:TRUE"
                $0.keyUsage = "digitalSignature,keyCertSign"
            })
        let mute = try Forge.chain(leaf: { $0.keyUsage = "keyAgreement" })
        let encryption = try Forge.chain(leaf: { $0.keyUsage = nil })
        return [
            ForgedObject(
                "leaf used as an authority", try leafAsAuthority.sign(Forge.payload),
                .pathInvalid("unable to get local issuer certificate")),
            ForgedObject("CA:FALSE", try notAuthority.sign(Forge.payload), .notACertificateAuthority),
            ForgedObject("no basic constraints", try silent.sign(Forge.payload), .notACertificateAuthority),
            ForgedObject(
                "may sign revocation lists only", try noSigning.sign(Forge.payload),
                .notACertificateAuthority),
            ForgedObject(
                "an authority as leaf", try authorityLeaf.sign(Forge.payload),
                .pathInvalid("the leaf is a certificate authority")),
            ForgedObject(
                "leaf for key agreement", try mute.sign(Forge.payload),
                .pathInvalid("the leaf's key usage allows no signatures")),
            ForgedObject(
                "leaf without key usage", try encryption.sign(Forge.payload),
                .pathInvalid("the leaf's key usage allows no signatures")),
        ]
    }
}

enum ChainLengthForgeries {
    static func all() throws -> [ForgedObject] {
        let chain = try Forge.genuine.get()
        let ders = [chain.leaf.der, chain.intermediate.der, chain.root.der]
        var all: [ForgedObject] = []
        for x5c in [[], [ders[0]], [ders[0], ders[1]], ders + [ders[2]]] {
            let text = try Forge.sign(header: MintedChain.header(x5c: x5c), by: chain)
            all.append(ForgedObject("\(x5c.count) entries", text, .chainLength(x5c.count)))
        }
        let thousand = Array(repeating: [UInt8](repeating: 1, count: 9), count: 1000)
        all.append(
            ForgedObject(
                "1000 entries", try Forge.sign(header: MintedChain.header(x5c: thousand), by: chain), .chainLength(1000)
            ))
        var xcode = CertificateTemplate.leaf(around: Forge.now)
        xcode.commonName = "StoreKit Testing in Xcode"
        let alone = try MintedCertificate.selfSigned(xcode)
        all.append(
            ForgedObject(
                "Xcode's self-signed certificate",
                try JWT.sign(
                    header: MintedChain.header(x5c: [alone.der]), payload: Forge.payload, key: alone.signingKey()),
                .chainLength(1)))
        for (name, x5c, expected) in [
            ("absent", "", SignedDataError.chainLength(nil)), ("text", #","x5c":"abc""#, .chainLength(nil)),
            ("numbers", #","x5c":[1,2,3]"#, .badCertificate(0)),
            ("no certificates", #","x5c":["AAAA","AAAA","AAAA"]"#, .badCertificate(0)),
            ("not base64", #","x5c":["*","*","*"]"#, .badCertificate(0)),
        ] {
            let text = try Forge.sign(header: Array(#"{"alg":"ES256"\#(x5c)}"#.utf8), by: chain)
            all.append(ForgedObject("x5c \(name)", text, expected))
        }
        let trailing = MintedChain.header(x5c: [ders[0] + [0], ders[1], ders[2]])
        all.append(
            ForgedObject("bytes after a certificate", try Forge.sign(header: trailing, by: chain), .badCertificate(0)))
        return all
    }
}

enum DateForgeries {
    static func all() throws -> [ForgedObject] {
        let now = Forge.now
        let expired = try Forge.chain(leaf: {
            $0.notBefore = now - .seconds(1000)
            $0.notAfter = now - .seconds(500)
        })
        let young = try Forge.chain(leaf: { $0.notBefore = now + .seconds(10) })
        let oldAuthority = try Forge.chain(intermediate: { $0.notAfter = now - .seconds(3600) })
        let genuine = try Forge.genuine.get()
        let payload = { (signed: UnixMilliseconds) in Forge.payload(signed: signed) }
        return [
            ForgedObject("expired when signed", try expired.sign(payload(now - .seconds(1))), .expiredAtSigning),
            ForgedObject("expired on the second", try expired.sign(payload(now - .seconds(500))), .expiredAtSigning),
            ForgedObject(
                "back-dated before the leaf", try expired.sign(payload(now - .seconds(1001))), .expiredAtSigning),
            ForgedObject("leaf not yet valid", try young.sign(payload(now)), .expiredAtSigning),
            ForgedObject("expired intermediate", try oldAuthority.sign(payload(now - .seconds(1))), .expiredAtSigning),
            ForgedObject("back-dated by decades", try genuine.sign(payload(UnixMilliseconds(0))), .expiredAtSigning),
            ForgedObject("no date, so the clock decides", try expired.sign(Array("{}".utf8)), .expiredAtSigning),
            ForgedObject("signed in six minutes", try genuine.sign(payload(now + .seconds(360))), .signedInFuture),
            ForgedObject("signed next year", try genuine.sign(payload(now + .seconds(31_536_000))), .signedInFuture),
            ForgedObject(
                "date as text", try genuine.sign(Array(#"{"signedDate":"1793000000000"}"#.utf8)), .badSignedDate),
            ForgedObject("negative date", try genuine.sign(Array(#"{"signedDate":-1}"#.utf8)), .badSignedDate),
            ForgedObject("date beyond X.509", try genuine.sign(Array(#"{"signedDate":1e300}"#.utf8)), .badSignedDate),
            ForgedObject("null date", try genuine.sign(Array(#"{"signedDate":null}"#.utf8)), .badSignedDate),
        ]
    }
}

enum SignatureForgeries {
    static func all() throws -> [ForgedObject] {
        let genuine = try Forge.genuine.get()
        let jws = try genuine.sign(Forge.payload)
        let signature = Forge.signature(of: jws)
        let order = Digest.bytes(hex: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551") ?? []
        let zero = [UInt8](repeating: 0, count: 32)
        let (r, s) = (Array(signature[..<32]), Array(signature[32...]))
        var payload = Forge.payload
        payload[payload.count - 8] ^= 1
        let other = try Forge.chain()
        let otherHeader = Forge.segments(try other.sign(Forge.payload))[0]
        let headerSwapped = ([otherHeader] + Forge.segments(jws)[1...]).joined(separator: ".")
        let der = derSignature(r: r, s: s)
        let signatures: [(String, [UInt8])] = [
            ("no signature", []), ("r = 0", zero + s), ("s = 0", r + zero), ("both 0", zero + zero),
            ("r = the order", order + s), ("s = the order", r + order), ("63 bytes", Array(signature.dropLast())),
            ("65 bytes", signature + [0]), ("65 bytes, leading zero", [0] + signature), ("DER", der),
            ("r and s exchanged", s + r), ("one bit of r", [r[0] ^ 1] + r[1...] + s),
            ("one bit of s", r + s[..<31] + [s[31] ^ 1]), ("all ones", [UInt8](repeating: 0xFF, count: 64)),
        ]
        return signatures.map { ForgedObject($0, Forge.replacing(jws, segment: 2, with: $1), .badSignature) } + [
            ForgedObject("payload changed", Forge.replacing(jws, segment: 1, with: payload), .badSignature),
            ForgedObject("header of another object", headerSwapped, .badSignature),
        ]
    }

    private static func derSignature(r: [UInt8], s: [UInt8]) -> [UInt8] {
        let integer = { (bytes: [UInt8]) -> [UInt8] in
            let body = bytes[0] & 0x80 != 0 ? [0] + bytes : bytes
            return [0x02, UInt8(body.count)] + body
        }
        let body = integer(r) + integer(s)
        return [0x30, UInt8(body.count)] + body
    }
}

enum ShapeForgeries {
    static func all() throws -> [ForgedObject] {
        let genuine = try Forge.genuine.get()
        let jws = try genuine.sign(Forge.payload)
        let parts = Forge.segments(jws)
        let big = try genuine.sign(Array(#"{"filler":"\#(String(repeating: "x", count: 40_000))"}"#.utf8))
        let deep = String(repeating: "[", count: 5000) + String(repeating: "]", count: 5000)
        return [
            ForgedObject("empty", "", .notCompactJWS), ForgedObject("words", "not a receipt", .notCompactJWS),
            ForgedObject("two segments", "\(parts[0]).\(parts[1])", .notCompactJWS),
            ForgedObject("four segments", jws + ".AA", .notCompactJWS),
            ForgedObject("over the cap", big, .tooLarge),
            ForgedObject("padded", "\(parts[0]).\(parts[1])=.\(parts[2])", .badBase64),
            ForgedObject("white space after", jws + "\n", .badBase64),
            ForgedObject("stray bits", "\(parts[0]).\(parts[1]).\(parts[2].dropLast())B", .badBase64),
            ForgedObject("header no JSON", "\(Base64URL.encode(Array("{".utf8))).\(parts[1]).\(parts[2])", .badHeader),
            ForgedObject("header a list", "\(Base64URL.encode(Array("[]".utf8))).\(parts[1]).\(parts[2])", .badHeader),
            ForgedObject("payload no JSON", try genuine.sign(Array("signedDate".utf8)), .payloadNotJSON),
            ForgedObject("payload a list", try genuine.sign(Array("[]".utf8)), .payloadNotJSON),
            ForgedObject("duplicate keys", try genuine.sign(Array(#"{"a":1,"a":2}"#.utf8)), .payloadNotJSON),
            ForgedObject("NUL", try genuine.sign(Array(#"{"a":"\u0000"}"#.utf8)), .payloadNotJSON),
            ForgedObject("deep nesting", try genuine.sign(Array(#"{"a":\#(deep)}"#.utf8)), .payloadNotJSON),
            ForgedObject(
                "invalid UTF-8", try genuine.sign([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D]), .payloadNotJSON),
        ]
    }
}
