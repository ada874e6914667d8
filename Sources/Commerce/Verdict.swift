/// What verification says about a receipt.
///
/// Never a Bool: "the network failed" is not "no".
///
/// `knownKey` is set when signature and identity were proved before the verdict fell, so that the pipeline can ask
/// whether this purchase is already credited: a later refund, consumption or outage must not turn a credit into a "no",
/// and who names the wrong product for it must still be told that it may be finished.
public enum Verdict: Sendable {
    /// The store confirms this purchase.
    case verified(VerifiedPurchase)
    /// A final no.
    ///
    /// `duty` is what the store waits for if the purchase was credited all the same, before there was a reason to refuse
    /// it (another sandbox policy, another account token): it was paid for, and the store takes back what it hears nothing of.
    case rejected(RejectionReason, knownKey: PurchaseKey? = nil, duty: StoreDuty? = nil)
    /// Bought, but not paid yet (Google's pending purchases).
    case awaitingPayment(knownKey: PurchaseKey? = nil)
    /// Unknown for now; try again after `retryAfter` (nil: after the usual backoff).
    ///
    /// `product` is what a human has to look for in the catalogue, when that is the cause: as the store calls it, or
    /// as the request does when the store could not be asked. `duty` is as above; nil says that it is not known
    /// whether the store waits for anything.
    case indeterminate(
        retryAfter: Duration? = nil, cause: IndeterminateCause, product: String? = nil, knownKey: PurchaseKey? = nil,
        duty: StoreDuty? = nil)
    /// A legacy app receipt holds several purchases, and each has its own verdict; none of them is `several` again.
    ///
    /// No part answers for another: the good ones are credited, and the receipt is not over while one is open.
    /// `claimed` are those that the request asks about (all, when it names nothing, or nothing of what is here), and
    /// they alone answer it; `others` is what is good or open beside them.
    case several(claimed: [Verdict], others: [Verdict])

    /// The purchase whose identity was proved.
    public var knownKey: PurchaseKey? {
        switch self {
        case .verified(let purchase): purchase.key
        case .several: nil
        case .rejected(_, let key, _), .awaitingPayment(let key), .indeterminate(_, _, _, let key, _): key
        }
    }
}
