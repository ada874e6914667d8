import Glibc
import ServiceRuntime

extension Receipt {
    /// A receipt told from its text, and the store product that the client's own words name.
    public struct Inferred: Sendable, Equatable {
        /// The proof.
        public let receipt: Receipt
        /// The `productId` of Google Play's original JSON: a hint where to ask, never a reason to credit.
        public let storeProductID: StoreProductID?
    }

    /// Tells what a text is.
    ///
    /// | text | is |
    /// |---|---|
    /// | `eyJ…` with two dots, base64url | Apple's signed transaction |
    /// | base64 that begins like DER (`MI`) or a property list (`ewo`) | Apple's legacy app receipt; line breaks are dropped |
    /// | `{…"purchaseToken":…}` | Google Play's original JSON; only the token and `productId` are used |
    /// | letters, digits, `.` `_` `-` | Google Play's purchase token |
    ///
    /// - Parameters:
    ///   - text: what the client sent.
    ///   - store: the store the client named, if it did; must agree with what the text is.
    /// - Returns: the receipt in its normalised form.
    /// - Throws: `ReceiptMistake`.
    public static func infer(_ text: String, store: Store? = nil) throws(ReceiptMistake) -> Inferred {
        guard let first = text.utf8.first else { throw ReceiptMistake("is empty") }
        if first == UInt8(ascii: "{") {
            guard store != .appStore else { throw ReceiptMistake("is JSON of Google Play, but the platform is ios") }
            return try fromPlayJSON(text)
        }
        if text.hasPrefix("eyJ"), isCompactJWS(text) {
            guard store != .googlePlay else {
                throw ReceiptMistake("is a signed transaction of Apple, but the platform is android")
            }
            guard text.utf8.count <= Limits.signedTransactionBytesMax else {
                throw ReceiptMistake("is a signed transaction of more than \(Limits.signedTransactionBytesMax) bytes")
            }
            return Inferred(receipt: Receipt(kind: .signedTransaction, text: text), storeProductID: nil)
        }
        if store != .googlePlay, text.hasPrefix("MI") || text.hasPrefix("ewo") {
            if let receipt = try appReceipt(text, isNamed: store == .appStore) {
                return Inferred(receipt: receipt, storeProductID: nil)
            }
        }
        guard store != .appStore else { throw ReceiptMistake("is neither a signed transaction nor an app receipt") }
        return Inferred(receipt: try purchaseToken(text, isNamed: store == .googlePlay), storeProductID: nil)
    }

    /// Whether a text has two dots and ends like base64url, which tells a JWS from every other receipt.
    ///
    /// Every request passes here with 6 kB, twice. Looking at each byte took 14 µs, `memchr` 0.2; the alphabet is checked
    /// anyway where the parts are decoded, and a JWS with a foreign character in it is refused there.
    private static func isCompactJWS(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { utf8 in
            guard let last = utf8.last, last == UInt8(ascii: ".") || isBase64URL(last) else { return false }
            let bytes = UnsafeRawBufferPointer(utf8)
            var dots = 0
            var at = 0
            while dots <= 2, at < bytes.count, let base = bytes.baseAddress,
                let dot = memchr(base + at, Int32(UInt8(ascii: ".")), bytes.count - at)
            {
                dots += 1
                at = UnsafeRawPointer(dot) - base + 1
            }
            return dots == 2
        }
    }

    private static func isBase64URL(_ byte: UInt8) -> Bool {
        ASCII.isLetterOrDigit(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    /// The shortest base64 that can hold an app receipt; shorter text without a platform is a token that begins alike.
    private static let appReceiptBytesMin = 256

    private static func appReceipt(_ text: String, isNamed: Bool) throws(ReceiptMistake) -> Receipt? {
        guard text.utf8.count <= Limits.appReceiptBytesMax else {
            throw ReceiptMistake("is an app receipt of more than \(Limits.appReceiptBytesMax) bytes")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            switch byte {
            case 0x0A, 0x0D, 0x20, 0x09: continue
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): bytes.append(byte)
            default:
                guard ASCII.isLetterOrDigit(byte) else { return nil }
                bytes.append(byte)
            }
        }
        guard isNamed || bytes.count >= appReceiptBytesMin else { return nil }
        guard bytes.count % 4 == 0, isPaddedOnlyAtItsEnd(bytes) else {
            guard isNamed else { return nil }
            throw ReceiptMistake("is an app receipt, but not complete base64")
        }
        return Receipt(kind: .appReceipt, text: String(decoding: bytes, as: UTF8.self))
    }

    private static func isPaddedOnlyAtItsEnd(_ base64: [UInt8]) -> Bool {
        guard let first = base64.firstIndex(of: UInt8(ascii: "=")) else { return true }
        return base64.count - first <= 2 && base64[first...].allSatisfy { $0 == UInt8(ascii: "=") }
    }

    /// Shorter text without a platform is not taken for a token: real ones have more than 100 characters.
    private static let inferredTokenBytesMin = 16

    private static func purchaseToken(_ text: String, isNamed: Bool) throws(ReceiptMistake) -> Receipt {
        // A token begins with small letters; `eyJ` is the beginning of somebody's JSON in base64.
        guard isNamed || text.utf8.count >= inferredTokenBytesMin && !text.hasPrefix("eyJ") else {
            throw ReceiptMistake("is no receipt of a known kind")
        }
        do throws(InvalidIdentifier) {
            let token = try PurchaseToken(validating: text)
            return Receipt(kind: .purchaseToken, text: token.rawValue)
        } catch {
            throw ReceiptMistake(isNamed ? "as a purchase token \(error.reason)" : "is no receipt of a known kind")
        }
    }

    private static func fromPlayJSON(_ text: String) throws(ReceiptMistake) -> Inferred {
        guard text.utf8.count <= Limits.playJSONBytesMax else {
            throw ReceiptMistake("is JSON of more than \(Limits.playJSONBytesMax) bytes")
        }
        do throws(JSONError) {
            let view = try JSONView.parse(text, depthMax: Limits.bodyDepthMax)
            let token = try view.identifier("purchaseToken", PurchaseToken.self)
            return Inferred(
                receipt: Receipt(kind: .purchaseToken, text: token.rawValue),
                storeProductID: try view.optionalIdentifier("productId", StoreProductID.self))
        } catch {
            throw ReceiptMistake("as JSON of Google Play: \(error.description)")
        }
    }
}
