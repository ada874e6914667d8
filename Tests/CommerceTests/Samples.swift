@_spi(Verification) import Commerce
import Signing

/// Values that several suites start from.
enum Samples {
    static let medium = """
        {"productId":"gems_pack_medium","type":"iap_consumable","storeProductId":{"ios":"com.mygame.gems.500",\
        "android":"gems_500"},"displayName":"500 crystals","description":"Plus 50 bonus crystals","gemAmount":500,\
        "bonusGemAmount":50,"badge":"best_value","position":2,"isVisible":true}
        """
    static let pass = """
        {"productId":"gold_pass","type":"iap_non_consumable","storeProductId":{"ios":"com.mygame.pass"},\
        "displayName":"Gold pass","gemAmount":30,"position":1}
        """

    static func catalogue(_ products: String...) throws -> Catalogue {
        try Catalogue(json: Array("[\(products.joined(separator: ","))]".utf8))
    }

    static func product(_ json: String) throws -> Product {
        guard let product = try catalogue(json).products.first else { throw GrantError.unsupportedType }
        return product
    }

    static func sha256(_ bytes: [UInt8]) -> [UInt8] { Digest.sha256(bytes) }

    static func applePurchase(_ transaction: String = "2000000403755054", quantity: Int64 = 1) throws
        -> VerifiedPurchase
    {
        let id = try TransactionID(validating: transaction)
        let product = try product(medium)
        return VerifiedPurchase(
            key: .apple(environment: .sandbox, transactionID: id, sha256: sha256), store: .appStore,
            environment: .sandbox, storeProductID: try StoreProductID(validating: "com.mygame.gems.500"),
            product: product, quantity: quantity, grants: try product.grants(quantity: quantity), transactionID: id,
            originalTransactionID: id, purchasedAtMilliseconds: 1_793_000_000_000, priceMilliunits: 4_990,
            priceCurrency: "EUR", storefront: "DEU", isTest: true)
    }

    static func promoPurchase() throws -> VerifiedPurchase {
        let token = try PurchaseToken(validating: "aaaabbbbccccddddeeeeffff.AO-J1Omadeup")
        let product = try product(pass)
        let storeID = try StoreProductID(validating: "gold_pass_play")
        return VerifiedPurchase(
            key: .google(token: token, sha256: sha256), store: .googlePlay, environment: .production,
            storeProductID: storeID, product: product, quantity: 1, grants: try product.grants(quantity: 1),
            purchasedAtMilliseconds: 1, isPromo: true,
            duty: StoreDuty(
                .googleAcknowledge, package: try PackageName(validating: "com.mygame"), storeProductID: storeID,
                token: token))
    }
}
