import Commerce
import ServiceRuntime

/// The fields of Google's `ProductPurchase` that decide, as Google names and types them.
///
/// [purchases.products](https://developers.google.com/android-publisher/api-ref/rest/v3/purchases.products). Everything
/// is optional on the wire and enumerations stay numbers, since Google adds values without warning. Throws `JSONError`
/// when a field has a shape that is not documented.
struct GoogleProductPurchase: Sendable, Equatable {
    /// 0 purchased, 1 cancelled, 2 pending.
    ///
    /// Absent is *not* taken for 0: no state, no credit.
    var purchaseState: Int64?
    /// 0 not yet, 1 consumed.
    var consumptionState: Int64
    /// 0 not yet, 1 acknowledged.
    var acknowledgementState: Int64
    /// Absent for a normal purchase; 0 test, 1 promo code, 2 rewarded.
    var purchaseType: Int64?
    /// 1 when absent.
    var quantity: Int64
    /// How many were not refunded yet, when Google says so.
    var refundableQuantity: Int64?
    /// Milliseconds; 0 when absent.
    var purchaseTimeMillis: Int64
    /// Missing for promo codes and pending purchases.
    var orderId: OrderID?
    /// May not be present, Google says.
    var productId: String?
    /// May not be present, Google says.
    var purchaseToken: String?
    var obfuscatedExternalAccountId: String?
    var regionCode: String?

    init(_ json: JSONView) throws(JSONError) {
        try json.object()
        purchaseState = try json.wireInteger("purchaseState")
        consumptionState = try json.wireInteger("consumptionState") ?? 0
        acknowledgementState = try json.wireInteger("acknowledgementState") ?? 0
        purchaseType = try json.wireInteger("purchaseType")
        quantity = try json.wireInteger("quantity") ?? 1
        refundableQuantity = try json.wireInteger("refundableQuantity")
        purchaseTimeMillis = try json.wireInteger("purchaseTimeMillis") ?? 0
        productId = try json.optionalString("productId", maxBytes: Limits.storeProductIDBytesMax)
        purchaseToken = try json.optionalString("purchaseToken", maxBytes: Limits.purchaseTokenBytesMax)
        obfuscatedExternalAccountId = try json.optionalString(
            "obfuscatedExternalAccountId", maxBytes: Limits.purchaseTokenBytesMax)
        // For the record only: a purchase must not wait because of them.
        orderId = json.wireNote("orderId", maxBytes: Limits.orderIDBytesMax).flatMap(OrderID.init(rawValue:))
        regionCode = json.wireNote("regionCode")
    }
}
