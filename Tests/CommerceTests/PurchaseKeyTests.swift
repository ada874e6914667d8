import Commerce
import Signing
import Testing

@Suite struct PurchaseKeyTests {
    @Test func textAndDigestArePinned() throws {
        let apple = PurchaseKey.apple(
            environment: .production, transactionID: try TransactionID(validating: "2000001234500777"),
            sha256: Samples.sha256)
        #expect(apple.text == "apple:Production:2000001234500777")
        #expect(apple.digestHex == "f4cca150a9b1c9c37b2cdd12cc7ed2a0")
        #expect(apple.digest.count == PurchaseKey.digestBytes)
        let token = try PurchaseToken(validating: "aaaabbbbccccddddeeeeffff.AO-J1Omadeup")
        let google = PurchaseKey.google(token: token, sha256: Samples.sha256)
        #expect(google.text == "google:aaaabbbbccccddddeeeeffff.AO-J1Omadeup")
        #expect(google.digestHex == "29b8bec75aff6b204a496c7d6cdd60dd")
        #expect("\(google)" == "purchase 29b8bec75aff6b204a496c7d6cdd60dd")
    }

    @Test func environmentAndLineAreParts() throws {
        let id = try TransactionID(validating: "1")
        #expect(
            PurchaseKey.apple(environment: .sandbox, transactionID: id, sha256: Samples.sha256)
                != PurchaseKey.apple(environment: .production, transactionID: id, sha256: Samples.sha256))
        let token = try PurchaseToken(validating: "t")
        let line = PurchaseKey.google(token: token, line: try StoreProductID(validating: "p"), sha256: Samples.sha256)
        #expect(line.text == "google:t:p")
        #expect(line != PurchaseKey.google(token: token, sha256: Samples.sha256))
    }
}
