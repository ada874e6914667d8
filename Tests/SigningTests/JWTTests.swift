import ServiceRuntime
import Signing
import Testing

@Suite struct JWTTests {
    private static let claims = Array(#"{"iss":"billing","iat":1793000000}"#.utf8)

    @Test func anES256TokenIsVerifiedByThePublicHalfOfItsKey() throws {
        let key = try ES256Key.generate()
        let token = try JWT.mint(claims: Self.claims, keyID: "KEY1", key: ES256Key(pem: key.pem))
        let verified = try JWT.verify(token, key: ES256PublicKey(pem: key.publicKey.pem))
        #expect(try verified.header.string("alg") == "ES256")
        #expect(try verified.header.string("kid") == "KEY1")
        #expect(try verified.header.string("typ") == "JWT")
        #expect(try verified.claims.string("iss") == "billing")
        #expect(JWT.unverifiedKeyID(token) == "KEY1")
    }

    @Test func anRS256TokenIsVerifiedByThePublicHalfOfItsKey() throws {
        let key = try RS256Key.generate()
        let token = try JWT.mint(claims: Self.claims, keyID: nil, key: RS256Key(pem: key.pem))
        let verified = try JWT.verify(token, key: RS256PublicKey(pem: key.publicKey.pem))
        #expect(try verified.header.string("alg") == "RS256")
        #expect(verified.header["kid"] == nil)
        #expect(JWT.unverifiedKeyID(token) == nil)
    }

    @Test func anotherKeyOfTheSameKindRefusesTheToken() throws {
        let token = try JWT.mint(claims: Self.claims, keyID: nil, key: ES256Key.generate())
        let stranger = try ES256Key.generate().publicKey
        #expect(throws: JWTError.badSignature) { try JWT.verify(token, key: stranger) }
    }

    @Test func aKeyRefusesATokenOfAnotherAlgorithm() throws {
        let key = try ES256Key.generate()
        let rsa = try RS256Key.generate()
        let token = try JWT.mint(claims: Self.claims, keyID: nil, key: rsa)
        #expect(throws: JWTError.algorithmNotAllowed) { try JWT.verify(token, key: key.publicKey) }
        let none = Base64URL.encode(Array(#"{"alg":"none"}"#.utf8)) + "." + Base64URL.encode(Self.claims) + "."
        #expect(throws: JWTError.algorithmNotAllowed) { try JWT.verify(none, key: rsa.publicKey) }
    }

    @Test func aChangedClaimIsRefused() throws {
        let key = try RS256Key.generate()
        let token = try JWT.mint(claims: Self.claims, keyID: nil, key: key)
        var segments = token.split(separator: ".").map(String.init)
        segments[1] = Base64URL.encode(Array(#"{"iss":"somebody else"}"#.utf8))
        let forged = segments.joined(separator: ".")
        #expect(throws: JWTError.badSignature) { try JWT.verify(forged, key: key.publicKey) }
    }

    @Test(arguments: ["", ".", "..", "a.b", "a.b.c.d", "e30.e30", "e30.W10.AA", "W10.e30.AA", "e30=.e30.AA"])
    func whatIsNotATokenIsMalformed(text: String) throws {
        let key = try ES256Key.generate().publicKey
        #expect(throws: JWTError.malformed) { try JWT.verify(text, key: key) }
    }

    @Test func aTokenOverTheCapIsNotLookedAt() throws {
        let key = try ES256Key.generate()
        let token = try JWT.mint(claims: Self.claims, keyID: nil, key: key)
        #expect(throws: JWTError.tooLarge) { try JWT.verify(token, key: key.publicKey, bytesMax: 20) }
    }

    @Test(arguments: ["", "not a key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
    func textThatIsNoKeyIsRefusedWithoutBeingQuoted(pem: String) {
        #expect(throws: KeyError.notPEM) { try ES256Key(pem: pem) }
        #expect(throws: KeyError.notPEM) { try RS256Key(pem: pem) }
        #expect(throws: KeyError.notPEM) { try RS256PublicKey(pem: pem) }
    }

    @Test func aKeyOfTheWrongKindIsRefused() throws {
        let (ec, rsa) = (try ES256Key.generate(), try RS256Key.generate())
        let wantsRSA = KeyError.wrongKind(expected: "an RSA key of at least 2048 bits")
        let wantsEC = KeyError.wrongKind(expected: "an EC key on the curve P-256")
        #expect(throws: wantsRSA) { try RS256Key(pem: ec.pem) }
        #expect(throws: wantsEC) { try ES256Key(pem: rsa.pem) }
        #expect(throws: wantsEC) { try ES256PublicKey(pem: rsa.publicKey.pem) }
        let root = try MintedCertificate.selfSigned(.root(around: Forge.now))
        #expect(throws: wantsEC) { try root.signingKey() }
    }

    @Test func signaturesAreRandomisedButOfFixedSize() throws {
        let key = try ES256Key.generate()
        for round in 0..<200 {
            let signature = try key.signature(of: [UInt8(round)])
            #expect(signature.count == 64)
            #expect(key.publicKey.isValid(signature, for: [UInt8(round)]))
        }
    }
}
