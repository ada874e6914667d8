import ServiceRuntime

/// A field of a catalogue that is kept like any unknown one, but looks like a misspelt known one.
///
/// `gemamount` grants nothing and `andriod` sells nothing at Google, and both are found out by players if nobody says
/// so.
public struct CatalogueWarning: Sendable, Equatable, CustomStringConvertible {
    /// Line of the field in the file, counted from 1; nil when its name is written with escapes.
    public let line: Int?
    /// Where the field is, such as `[3].storeProductId.andriod`.
    public let path: String
    /// The known field that was probably meant.
    public let meant: String

    /// For example "line 7: [3].gemamount: is not a known field; did you mean gemAmount?".
    public var description: String {
        (line.map { "line \($0): " } ?? "") + "\(path): is not a known field; did you mean \(meant)?"
    }

    /// What looks misspelt in some products, in the order of the file; at most ``Limits/catalogueFindingsMax``.
    static func all(in products: [JSONView]) -> [CatalogueWarning] {
        var warnings: [CatalogueWarning] = []
        for product in products {
            warnings += misspelt(in: product, known: Product.fields)
            if let stores = product["storeProductId"] {
                warnings += misspelt(in: stores, known: Store.allCases.map(\.platform))
            }
            guard warnings.count < Limits.catalogueFindingsMax else { break }
        }
        return Array(warnings.prefix(Limits.catalogueFindingsMax))
    }

    private static func misspelt(in object: JSONView, known: [String]) -> [CatalogueWarning] {
        object.unknownKeys(besides: known).compactMap { key in
            guard let field = object[key], let meant = Spelling.guess(key, among: known) else { return nil }
            return CatalogueWarning(line: object.line(of: key), path: field.path, meant: meant)
        }
    }
}
