import ServiceRuntime
import Signing

/// The keys of both stores and of the app's owner at both, fresh for each emulator.
///
/// A receipt that one run signed means nothing to the next, so a root that was trusted for a demonstration and then
/// forgotten in some configuration cannot be used by anybody.
@LoopActor
final class EmulatorKeys {
    let apple: ES256Key
    let google: RS256Key
    private(set) var chain: MintedChain
    private let clock: WallClock
    private var others: [ReceiptSigner: MintedChain] = [:]

    /// An RSA key takes hundreds of milliseconds of the loop's time to find, so the emulators of one process share it.
    private static let googleKey = Result { () throws(KeyError) in try RS256Key.generate() }

    init(clock: WallClock) throws(KeyError) {
        self.clock = clock
        apple = try .generate()
        google = try Self.googleKey.get()
        chain = try .make(around: clock.now)
    }

    /// Replaces the leaf, as Apple does every two years, under the same root.
    func replaceLeaf() throws(KeyError) { chain = try chain.replacingLeaf(.leaf(around: clock.now)) }

    /// The chain for receipts that are not signed the ordinary way; made when first needed.
    func chain(for signer: ReceiptSigner) throws(KeyError) -> MintedChain {
        if let made = others[signer] { return made }
        let made: MintedChain
        var leaf = CertificateTemplate.leaf(around: clock.now)
        switch signer {
        case .genuine, .changedPayload, .none: return chain
        case .expiredLeaf, .expiredWhenSigned:
            leaf.notBefore = clock.now - .seconds(100 * 86_400)
            leaf.notAfter = clock.now - .seconds(30 * 86_400)
            made = try chain.replacingLeaf(leaf)
        case .developerCertificate:
            leaf.markers = []
            made = try chain.replacingLeaf(leaf)
        case .rogueRoot: made = try .make(around: clock.now)
        }
        others[signer] = made
        return made
    }
}
