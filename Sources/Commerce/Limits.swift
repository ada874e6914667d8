/// Every size and range that text from outside must keep, in one place.
///
/// Bytes are bytes of UTF-8. The configuration reference quotes these names.
public enum Limits {
    /// Longest player id.
    public static let playerIDBytesMax = 128
    /// Longest product id of the catalogue.
    public static let productIDBytesMax = 128
    /// Longest product id of a store.
    public static let storeProductIDBytesMax = 256
    /// Longest transaction id of Apple; real ones have 15 to 19 digits.
    public static let transactionIDDigitsMax = 32
    /// Longest purchase token of Google Play.
    public static let purchaseTokenBytesMax = 2 * 1024
    /// Longest order id of Google Play.
    public static let orderIDBytesMax = 128
    /// Longest Android package name.
    public static let packageNameBytesMax = 256
    /// Longest currency code, such as `gems`.
    public static let currencyCodeBytesMax = 32
    /// Longest account token: Google allows 64 characters, Apple's is a UUID of 36.
    public static let accountTokenBytesMax = 64
    /// Longest signed transaction (JWS); real ones have 5.5 to 6.5 kB.
    public static let signedTransactionBytesMax = 32 * 1024
    /// Longest legacy app receipt, as base64.
    public static let appReceiptBytesMax = 960 * 1024
    /// Longest original JSON of a Google Play purchase.
    public static let playJSONBytesMax = 8 * 1024
    /// Largest job or request body without a legacy receipt.
    public static let bodyBytesMax = 128 * 1024
    /// Largest job or request body with a legacy receipt.
    public static let bodyWithAppReceiptBytesMax = 1024 * 1024
    /// Deepest nesting of a request body or job.
    public static let bodyDepthMax = 8
    /// Largest quantity of one purchase.
    ///
    /// Stores sell at most tens; beyond this an answer is nonsense.
    public static let quantityMax: Int64 = 10_000
    /// Largest balance and largest amount: 2^53 − 1.
    ///
    /// Lua computes with doubles and JSON clients with JavaScript numbers; both are exact up to here and wrong
    /// beyond.
    public static let amountMax: Int64 = 9_007_199_254_740_991
    /// Most products of one catalogue.
    public static let catalogueProductsMax = 10_000
    /// Mistakes of one catalogue, and warnings about it, after which no more are looked for: each costs a count of the
    /// lines before it, and a running process reads the file between two receipts.
    public static let catalogueFindingsMax = 50
    /// Largest catalogue file.
    public static let catalogueBytesMax = 16 * 1024 * 1024
    /// Most entries of one history page.
    public static let historyPageMax = 100
}
