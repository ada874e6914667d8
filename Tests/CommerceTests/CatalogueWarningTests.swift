import Commerce
import Testing

@Suite struct CatalogueWarningTests {
    /// A catalogue of two products, one on each line; `fields` are added to the second.
    private func warnings(_ fields: String, stores: String = "") throws -> [String] {
        let second = Samples.medium
            .replacing("\"isVisible\":true", with: "\"isVisible\":true" + fields)
            .replacing("\"android\":\"gems_500\"", with: "\"android\":\"gems_500\"" + stores)
        return try Catalogue(json: Array("[\(Samples.pass),\n\(second)]".utf8)).warnings.map(\.description)
    }

    @Test func namesLineFieldAndWhatWasMeant() throws {
        let text = "[\n  \(Samples.pass.replacing("gemAmount", with: "gemamount")),\n\n\(Samples.medium)]"
        let warning = try #require(try Catalogue(json: Array(text.utf8)).warnings.first)
        #expect(warning.line == 2 && warning.path == "[0].gemamount" && warning.meant == "gemAmount")
        #expect(warning.description == "line 2: [0].gemamount: is not a known field; did you mean gemAmount?")
        let product =
            "{\"products\":\n[\(Samples.medium.replacing("\"bonusGemAmount\"", with: "\n\"bonusGemAmout\""))]}"
        #expect(
            try Catalogue(json: Array(product.utf8)).warnings.map(\.description)
                == ["line 3: products[0].bonusGemAmout: is not a known field; did you mean bonusGemAmount?"])
    }

    @Test func looksAtTheStoresToo() throws {
        #expect(
            try warnings("", stores: ",\n\"andriod\":\"x\"") == [
                "line 3: [1].storeProductId.andriod: is not a known field; did you mean android?"
            ])
    }

    /// So that a field that is read from now on is known here as well.
    @Test func knowsEveryFieldOfTheDocumentedShape() throws {
        #expect(try warnings("").isEmpty)
        for field in [
            "productId", "type", "storeProductId", "displayName", "description", "gemAmount", "bonusGemAmount", "badge",
            "position", "isVisible",
        ] {
            let written = field.uppercased()
            #expect(
                try warnings(",\"\(written)\":1") == [
                    "line 2: [1].\(written): is not a known field; did you mean \(field)?"
                ])
        }
    }

    @Test func otherFieldsAreKeptWithoutAWord() throws {
        #expect(
            try warnings(#","icon":"a.png","tags":[],"coinAmount":4,"price":"0.99""#, stores: #","web":"w""#).isEmpty)
    }

    @Test func warnsWithoutTheLineOfANameInEscapes() throws {
        #expect(
            try warnings(#","badg\u0065s":1"#) == ["[1].badges: is not a known field; did you mean badge?"])
    }

    @Test func warningsHaveALimit() throws {
        let products = (0...Limits.catalogueFindingsMax).map { index in
            #"{"productId":"p\#(index)","type":"iap_consumable","storeProductId":{"ios":"p\#(index)","IOS":"x"},"#
                + #""displayName":"P","gemAmount":1,"positon":1}"#
        }
        let catalogue = try Catalogue(json: Array("[\(products.joined(separator: ",\n"))]".utf8))
        #expect(catalogue.warnings.count == Limits.catalogueFindingsMax)
        #expect(catalogue.warnings.last?.line == Limits.catalogueFindingsMax / 2)
    }
}

@Suite struct CatalogueLossTests {
    private func losses(_ change: (String) -> String) throws -> [String] {
        let old = try Samples.catalogue(Samples.medium, Samples.pass)
        return old.losses(in: try Catalogue(json: Array(change("[\(Samples.medium),\(Samples.pass)]").utf8)))
            .map(\.description)
    }

    @Test func nothingIsLostThatIsStillThere() throws {
        #expect(try losses { $0 }.isEmpty)
        #expect(try losses { $0.replacing("500 crystals", with: "Crystals").replacing("true", with: "false") }.isEmpty)
        let more = #"{"ios":"com.mygame.pass","android":"pass"}"#
        #expect(try losses { $0.replacing(#"{"ios":"com.mygame.pass"}"#, with: more) }.isEmpty)
    }

    @Test func productThatIsGoneOrRenamedIsLost() throws {
        #expect(try losses { _ in "[\(Samples.medium)]" } == ["gold_pass"])
        #expect(try losses { $0.replacing("gems_pack_medium", with: "renamed") } == ["gems_pack_medium"])
    }

    @Test func storeProductIDThatIsGoneOrAnotherIsLost() throws {
        #expect(
            try losses { $0.replacing(#","android":"gems_500""#, with: "") } == ["gems_pack_medium (android gems_500)"])
        #expect(
            try losses { $0.replacing("com.mygame", with: "com.other") } == [
                "gold_pass (ios com.mygame.pass)", "gems_pack_medium (ios com.mygame.gems.500)",
            ])
    }

    /// Worse than lost: its receipts grant something else from now on.
    @Test func storeProductIDOfAnotherProductIsLost() throws {
        #expect(
            try losses {
                $0.replacing("com.mygame.gems.500", with: "x").replacing("com.mygame.pass", with: "com.mygame.gems.500")
            } == ["gold_pass (ios com.mygame.pass)", "gems_pack_medium (ios com.mygame.gems.500)"])
    }
}
