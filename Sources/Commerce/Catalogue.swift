import ServiceRuntime

/// The set of products on sale, read from one JSON file.
///
/// The file is an array of products, or an object with a member `products` that is one. Fields that this version does
/// not know are kept, with a warning when they look like a misspelt one. A file with any mistake is refused as a whole,
/// so a half-read catalogue never grants anything.
public struct Catalogue: Sendable {
    /// All products, ordered by position, then as in the file.
    public let products: [Product]
    /// A text that changes with the content, such as a digest; supplied by whoever read the file.
    public let version: String
    /// Fields that look misspelt.
    public let warnings: [CatalogueWarning]
    private let byID: [ProductID: Product]
    private let byStore: [Store: [StoreProductID: Product]]

    /// Reads a catalogue.
    ///
    /// - Parameters:
    ///   - json: the content of the file, UTF-8.
    ///   - version: a text that changes with the content.
    /// - Throws: `CatalogueError` with every mistake, or the first ``Limits/catalogueFindingsMax``: line and column
    ///   when it is not JSON; line, the field's path and the reason when the shape is wrong.
    public init(json: [UInt8], version: String = "") throws(CatalogueError) {
        guard json.count <= Limits.catalogueBytesMax else {
            throw CatalogueError([JSONError(reason: "is larger than \(Limits.catalogueBytesMax) bytes")])
        }
        let elements: [JSONView]
        do throws(JSONError) {
            let document = try JSONView.parse(json)
            elements = document.kind == .object ? try document.elements("products") : try document.elements()
            guard elements.count <= Limits.catalogueProductsMax else {
                throw document.error("has more than \(Limits.catalogueProductsMax) products")
            }
            guard !elements.isEmpty else { throw document.error("has no products") }
        } catch {
            throw CatalogueError([error])
        }
        var mistakes: [JSONError] = []
        var index = CatalogueIndex()
        for element in elements {
            let before = mistakes.count
            if let product = Product.parse(element, mistakes: &mistakes) {
                index.add(product, from: element, mistakes: &mistakes)
            }
            for at in before..<mistakes.count { mistakes[at] = element.withLine(mistakes[at]) }
            guard mistakes.count < Limits.catalogueFindingsMax else { break }
        }
        guard mistakes.isEmpty else { throw CatalogueError(mistakes) }
        products = index.products.enumerated().sorted { left, right in
            (left.element.position, left.offset) < (right.element.position, right.offset)
        }.map(\.element)
        byID = index.byID
        byStore = index.byStore
        self.version = version
        warnings = CatalogueWarning.all(in: elements)
    }

    /// The product with this id.
    public func product(_ id: ProductID) -> Product? { byID[id] }

    /// The product that a store knows by this name; decides what a verified purchase grants.
    public func product(store: Store, storeProductID: StoreProductID) -> Product? { byStore[store]?[storeProductID] }

    /// What the request says was bought, in the words of its store; nil when it says nothing, or nothing known.
    public func storeProductID(namedBy submission: ReceiptSubmission) -> StoreProductID? {
        submission.storeProductHint ?? submission.product.flatMap { byID[$0]?.storeProductIDs[submission.store] }
    }

    /// The product that the *store* sold, held against the one that the request names.
    ///
    /// The client's product id decides nothing; it must only not be wrong.
    public func match(_ sold: StoreProductID, for submission: ReceiptSubmission) -> ProductMatch {
        guard let product = product(store: submission.store, storeProductID: sold) else {
            return .unknown(sold.rawValue)
        }
        guard let claimed = submission.product, claimed != product.id else { return .product(product) }
        // Whoever took the receipt knew that name: the catalogue has changed since, which is no fault of the player's.
        return byID[claimed] == nil ? .unknown(claimed.rawValue) : .mismatch
    }
}

/// How a store's product id relates to the catalogue and to the request.
public enum ProductMatch: Sendable {
    /// What the store sold, and the request names it or nothing.
    case product(Product)
    /// What the store sold, or the request names, is missing in the catalogue under this name: our mistake, so the
    /// purchase waits for a new catalogue.
    case unknown(String)
    /// The request names another product than the store sold.
    case mismatch
}

extension JSONView {
    /// A mistake in this product with the line of its field, or of the product's first one when its own is missing.
    fileprivate func withLine(_ mistake: JSONError) -> JSONError {
        var line = (try? members().first).flatMap { self.line(of: $0.key) }
        var object = self
        for key in mistake.path.dropFirst(path.count).split(separator: ".").map(String.init) {
            guard let member = object[key], let there = object.line(of: key) else { break }
            (object, line) = (member, there)
        }
        return JSONError(reason: mistake.reason, path: mistake.path, line: line)
    }
}

/// Products by their names while a catalogue is read; refuses a name that is taken.
struct CatalogueIndex {
    private(set) var products: [Product] = []
    private(set) var byID: [ProductID: Product] = [:]
    private(set) var byStore: [Store: [StoreProductID: Product]] = [:]

    mutating func add(_ product: Product, from view: JSONView, mistakes: inout [JSONError]) {
        if byID.updateValue(product, forKey: product.id) != nil, let field = view["productId"] {
            mistakes.append(field.error("is also the productId of an earlier product"))
        }
        for store in Store.allCases {
            guard let storeID = product.storeProductIDs[store] else { continue }
            let earlier = byStore[store, default: [:]].updateValue(product, forKey: storeID)
            if earlier != nil, let field = view["storeProductId"]?[store.platform] {
                mistakes.append(field.error("is also the \(store.platform) product of an earlier product"))
            }
        }
        products.append(product)
    }
}
