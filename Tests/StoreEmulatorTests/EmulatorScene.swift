import HTTP
import ServiceRuntime
import Signing
import StoreEmulator
import TestSupport
import Testing

/// An emulator on a free port, a client for it, and the credentials of the app's owner.
@LoopActor
final class EmulatorScene {
    let clock = ManualClock(UnixMilliseconds(seconds: 1_793_000_000))
    let emulator: StoreEmulator
    let client = HTTPClient(logger: .disabled)
    let configuration: StoreEmulator.Configuration

    private init(_ change: (inout StoreEmulator.Configuration) -> Void) throws {
        var configuration = StoreEmulator.Configuration()
        configuration.clock = clock.wallClock
        change(&configuration)
        self.configuration = configuration
        emulator = try StoreEmulator(configuration)
    }

    static func with(
        _ change: (inout StoreEmulator.Configuration) -> Void = { _ in },
        _ body: @LoopActor (EmulatorScene) async throws -> Void
    ) async throws {
        let scene = try EmulatorScene(change)
        try scene.emulator.start()
        try await running {
            try await body(scene)
        } stop: {
            await scene.stop()
        }
    }

    private func stop() async {
        await client.stop()
        await emulator.stop()
    }

    func send(
        _ method: HTTPMethod, _ url: String, token: String? = nil, body: String? = nil,
        deadline: Duration = .seconds(10)
    ) async throws -> HTTPAnswer {
        try await client.send(
            OutgoingRequest(
                method, url, headers: token.map { [("Authorization", "Bearer \($0)")] } ?? [],
                body: body.map { Array($0.utf8) }, deadline: deadline))
    }

    func control(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> HTTPAnswer {
        try await send(method, emulator.baseURL + "/control" + path, body: body)
    }

    // MARK: Apple

    func appleToken(_ change: (inout AppleClaims) -> Void = { _ in }) throws -> String {
        var claims = AppleClaims(issued: clock.now.seconds)
        change(&claims)
        return try JWT.mint(
            claims: claims.json, keyID: claims.keyID, key: claims.key ?? ES256Key(pem: emulator.applePrivateKeyPEM))
    }

    func transaction(_ id: String, _ environment: EmulatedEnvironment = .production) async throws -> HTTPAnswer {
        try await send(
            .get, "\(emulator.appleURL(environment))/inApps/v1/transactions/\(id)", token: try appleToken())
    }

    func verified(_ jws: String) throws -> VerifiedPayload {
        let roots = try TrustedRoots(sha256Fingerprints: [emulator.rootFingerprint])
        return try SignedDataVerifier(roots: roots).verify(jws, now: clock.now)
    }

    func verifyReceipt(_ receipt: String, _ environment: EmulatedEnvironment = .production) async throws -> JSONView {
        let answer = try await send(
            .post, emulator.receiptURL(environment), body: #"{"receipt-data":"\#(receipt)","password":"secret"}"#)
        #expect(answer.status == 200)
        return try JSONView.parse(answer.body)
    }

    // MARK: Google

    func assertion(_ change: (inout GoogleClaims) -> Void = { _ in }) throws -> String {
        var claims = GoogleClaims(issued: clock.now.seconds, audience: emulator.tokenURL)
        change(&claims)
        return try JWT.mint(
            claims: claims.json, keyID: "00aa11bb22cc", key: claims.key ?? RS256Key(pem: emulator.googlePrivateKeyPEM))
    }

    func exchange(_ assertion: String) async throws -> HTTPAnswer {
        try await send(
            .post, emulator.tokenURL,
            body: "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)")
    }

    func accessToken() async throws -> String {
        try JSONView.parse(await exchange(assertion()).body).string("access_token")
    }

    func productURL(_ token: String, product: String = "gems_500", package: String = "com.mygame") -> String {
        "\(emulator.googleURL)/androidpublisher/v3/applications/\(package)/purchases/products/\(product)/tokens/\(token)"
    }
}

struct AppleClaims {
    var issued: Int64
    var life: Int64 = 300
    var issuer = "11111111-2222-4333-8444-555555555555"
    var audience = "appstoreconnect-v1"
    var bundleID = "com.mygame"
    var keyID: String? = "EMULATED01"
    var key: ES256Key?

    init(issued: Int64) { self.issued = issued }

    var json: [UInt8] {
        Array(
            #"{"iss":"\#(issuer)","iat":\#(issued),"exp":\#(issued + life),"aud":"\#(audience)","bid":"\#(bundleID)"}"#
                .utf8)
    }
}

struct GoogleClaims {
    var issued: Int64
    var life: Int64 = 3600
    var issuer = "billing@emulated.iam.gserviceaccount.com"
    var audience: String
    var scope = "https://www.googleapis.com/auth/androidpublisher"
    var key: RS256Key?

    init(issued: Int64, audience: String) {
        self.issued = issued
        self.audience = audience
    }

    var json: [UInt8] {
        Array(
            #"{"iss":"\#(issuer)","scope":"\#(scope)","aud":"\#(audience)","iat":\#(issued),"exp":\#(issued + life)}"#
                .utf8)
    }
}
