/// Something that a catalogue had and the one after it has not.
///
/// It may have been sold, and be sold still: a receipt that names it waits until the catalogue has it again.
public enum CatalogueLoss: Sendable, Equatable, CustomStringConvertible {
    /// A product as a whole.
    case product(ProductID)
    /// What a store calls a product that is still there, perhaps under another name.
    case storeProductID(StoreProductID, Store, of: ProductID)

    /// For example "gems_pack_small" or "gems_pack_small (android gems_100)".
    public var description: String {
        switch self {
        case .product(let id): "\(id)"
        case .storeProductID(let storeID, let store, let id): "\(id) (\(store.platform) \(storeID))"
        }
    }
}

extension Catalogue {
    /// What this catalogue has and `newer` lacks, in the order of this one.
    public func losses(in newer: Catalogue) -> [CatalogueLoss] {
        products.flatMap { product -> [CatalogueLoss] in
            guard let successor = newer.product(product.id) else { return [.product(product.id)] }
            return Store.allCases.compactMap { store in
                guard let storeID = product.storeProductIDs[store], successor.storeProductIDs[store] != storeID else {
                    return nil
                }
                return .storeProductID(storeID, store, of: product.id)
            }
        }
    }
}
