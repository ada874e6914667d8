import Commerce
import Operations
import ServiceRuntime

/// The catalogue of a running process: read at the start and on SIGHUP, and told about in the log.
extension Foundations {
    private nonisolated static let lossesToldMax = 10

    /// Reads the catalogue as it is now, without a word.
    @discardableResult
    func catalogue() throws -> Catalogue {
        try Catalogue(json: Self.contents(ofFile: configuration.cataloguePath))
    }

    /// Reads the catalogue that counts from now on.
    func catalogueInForce() throws -> Catalogue {
        let catalogue = try catalogue()
        for warning in catalogue.warnings { logger.warning("catalogue", ["message": .string("\(warning)")]) }
        return catalogue
    }

    /// Reads the catalogue again and hands it on; a broken one is refused, and the old one stays.
    ///
    /// One that lacks what the old one had is taken, as its author may well mean it; but what was sold until now is
    /// still to come in, and would wait unseen.
    func reloadCatalogue(after old: Catalogue, _ use: (Catalogue) -> Void) {
        do {
            let catalogue = try catalogueInForce()
            use(catalogue)
            let losses = old.losses(in: catalogue)
            if !losses.isEmpty {
                let told = losses.prefix(Self.lossesToldMax).map(\.description).joined(separator: ", ")
                logger.warning(
                    "products left the catalogue, their receipts wait from now on",
                    ["count": .count(losses.count), "products": .string(told)])
            }
            logger.notice("catalogue reloaded", ["products": .count(catalogue.products.count)])
        } catch {
            logger.error("catalogue refused, the old one stays", ["error": .string("\(error)")])
        }
    }
}
