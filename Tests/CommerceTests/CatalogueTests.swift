import Commerce
import ServiceRuntime
import Testing

@Suite struct CatalogueTests {
    @Test func readsTheDocumentedShape() throws {
        let catalogue = try Catalogue(json: Array("[\(Samples.medium),\(Samples.pass)]".utf8), version: "v7")
        let medium = try #require(catalogue.product(try ProductID(validating: "gems_pack_medium")))
        #expect(medium.type == .consumable)
        #expect(
            medium.storeProductIDs.mapValues(\.rawValue) == [.appStore: "com.mygame.gems.500", .googlePlay: "gems_500"])
        #expect(medium.displayName == "500 crystals")
        #expect(medium.summary == "Plus 50 bonus crystals")
        #expect(medium.gemAmount == 500)
        #expect(medium.bonusGemAmount == 50)
        #expect(medium.badge == "best_value")
        #expect(medium.position == 2)
        #expect(medium.isVisible)
        #expect(medium.json == Samples.medium)
        #expect(catalogue.version == "v7")
        #expect(catalogue.products.map(\.id.rawValue) == ["gold_pass", "gems_pack_medium"])
        let pass = try #require(catalogue.products.first)
        #expect(pass.type == .nonConsumable)
        #expect(pass.badge == nil)
        #expect(pass.isVisible)
    }

    @Test func findsProductsByTheStoresName() throws {
        let catalogue = try Samples.catalogue(Samples.medium, Samples.pass)
        let apple = try StoreProductID(validating: "com.mygame.gems.500")
        #expect(catalogue.product(store: .appStore, storeProductID: apple)?.id.rawValue == "gems_pack_medium")
        #expect(catalogue.product(store: .googlePlay, storeProductID: apple) == nil)
        let google = try StoreProductID(validating: "gems_500")
        #expect(catalogue.product(store: .googlePlay, storeProductID: google)?.id.rawValue == "gems_pack_medium")
        #expect(catalogue.product(try ProductID(validating: "gems_500")) == nil)
    }

    @Test func acceptsAnObjectWithProducts() throws {
        let catalogue = try Catalogue(json: Array("{\"season\":3,\"products\":[\(Samples.medium)]}".utf8))
        #expect(catalogue.products.count == 1)
    }

    /// A shop that sells nothing is a file that was cut off, and a reload would refuse every purchase.
    @Test(arguments: ["[]", #"{"products":[]}"#]) func refusesACatalogueWithoutProducts(_ json: String) {
        let error = #expect(throws: CatalogueError.self) { try Catalogue(json: Array(json.utf8)) }
        #expect(error?.mistakes.map(\.reason) == ["has no products"])
    }

    /// What the store sold decides; what the request says must only not be wrong.
    @Test(arguments: [
        ("a", "a", "product"), (nil, "a", "product"), ("b", "a", "mismatch"), ("b", "gone", "unknown ios.gone"),
        ("renamed_since", "a", "unknown renamed_since"),
    ]) func holdsTheRequestAgainstWhatTheStoreSold(named: String?, sold: String, expected: String) throws {
        let json = ["a", "b"].map {
            #"{"productId":"\#($0)","type":"iap_consumable","storeProductId":{"ios":"ios.\#($0)"},"displayName":"P","gemAmount":1}"#
        }
        let catalogue = try Catalogue(json: Array("[\(json.joined(separator: ","))]".utf8))
        let submission = ReceiptSubmission(
            player: try PlayerID(validating: "ada"), product: try named.map { try ProductID(validating: $0) },
            receipt: try Receipt.infer("eyJhbGciOiJFUzI1NiJ9.eyJ0IjoxfQ.c2ln", store: nil).receipt)
        let match: String =
            switch catalogue.match(try StoreProductID(validating: "ios." + sold), for: submission) {
            case .product(let product): product.id.rawValue == "a" ? "product" : "another"
            case .unknown(let name): "unknown " + name
            case .mismatch: "mismatch"
            }
        #expect(match == expected)
        let known = named == "a" || named == "b"
        #expect(catalogue.storeProductID(namedBy: submission)?.rawValue == (known ? named.map { "ios." + $0 } : nil))
    }

    @Test func keepsUnknownFieldsInTheirOrder() throws {
        let json = """
            {"zeta":{"deep":[1,2.5,null]},"productId":"p","type":"iap_consumable","storeProductId":{"ios":"p","web":"w"},\
            "displayName":"P","gemAmount":1,"alpha":"é"}
            """
        #expect(try Samples.product(json).json == json)
    }

    @Test func namesLineAndColumnOfASyntaxError() throws {
        let text = "[\n  {\"productId\": \"a\",\n   \"type\" \"iap_consumable\"}\n]"
        let error = #expect(throws: CatalogueError.self) { try Catalogue(json: Array(text.utf8)) }
        let mistake = try #require(error?.mistakes.first)
        #expect(error?.mistakes.count == 1)
        #expect(mistake.line == 3)
        #expect(mistake.column != nil)
    }

    /// Each product has one mistake; its path and a part of its reason.
    static let mistakes: [(change: (String, String), path: String, reason: String)] = [
        (("\"productId\":\"gems_pack_medium\",", ""), ".productId", "is missing"),
        (("\"gems_pack_medium\"", "\"gems/../pack\""), ".productId", "may contain only"),
        (("\"gems_pack_medium\"", "7"), ".productId", "must be a string"),
        (("iap_consumable", "iap_rental"), ".type", "must be one of iap_consumable"),
        (("iap_consumable", "iap_subscription"), ".type", "not supported yet"),
        (("{\"ios\":\"com.mygame.gems.500\",\"android\":\"gems_500\"}", "{}"), ".storeProductId", "names no product"),
        (
            ("{\"ios\":\"com.mygame.gems.500\",\"android\":\"gems_500\"}", "\"x\""), ".storeProductId",
            "must be an object"
        ),
        (("\"com.mygame.gems.500\"", "\"a b\""), ".storeProductId.ios", "may contain only"),
        (("\"gems_500\"", "[]"), ".storeProductId.android", "must be a string"),
        (("\"500 crystals\"", "\"\""), ".displayName", "is empty"),
        (("\"500 crystals\"", "null"), ".displayName", "must be a string"),
        (("\"gemAmount\":500,", ""), ".gemAmount", "is missing"),
        (("500,\"bonus", "\"500\",\"bonus"), ".gemAmount", "must be an integer"),
        (("500,\"bonus", "500.0,\"bonus"), ".gemAmount", "must be an integer"),
        (("500,\"bonus", "-1,\"bonus"), ".gemAmount", ""),
        (("500,\"bonus", "9007199254740992,\"bonus"), ".gemAmount", ""),
        (("500,\"bonus", "9007199254740991,\"bonus"), "", "together are more than 2^53 - 1"),
        (("\"gemAmount\":500,\"bonusGemAmount\":50", "\"gemAmount\":0,\"bonusGemAmount\":0"), "", "must grant gems"),
        (("\"bonusGemAmount\":50", "\"bonusGemAmount\":true"), ".bonusGemAmount", "must be an integer"),
        (("\"best_value\"", "1"), ".badge", "must be a string"),
        (("\"position\":2", "\"position\":\"2\""), ".position", "must be an integer"),
        (("\"isVisible\":true", "\"isVisible\":1"), ".isVisible", ""),
    ]

    @Test(arguments: mistakes.indices)
    func namesTheFieldAndTheReason(_ index: Int) throws {
        let (change, path, reason) = Self.mistakes[index]
        let broken = Samples.medium.replacing(change.0, with: change.1)
        #expect(broken != Samples.medium)
        let error = #expect(throws: CatalogueError.self) { try Samples.catalogue(Samples.pass, broken) }
        let mistake = try #require(error?.mistakes.first)
        #expect(error?.mistakes.count == 1)
        #expect(mistake.path == "[1]" + path)
        #expect(mistake.reason.contains(reason), "\(mistake.reason)")
    }

    @Test func namesTheLineOfEachMistake() throws {
        let text = """
            {"products":[
            {"productId":"a","type":"iap_consumable","storeProductId":{"ios":"a"},"displayName":"A","gemAmount":1},
            {
              "productId": "b",
              "type": "iap_consumable",
              "storeProductId": {
                "ios": "a"
              },
              "gemAmount": 1.5
            },
            7, {"type":"iap_consumable"}]}
            """
        let error = #expect(throws: CatalogueError.self) { try Catalogue(json: Array(text.utf8)) }
        let lines = error?.description.split(separator: "\n").map { $0.prefix { $0 != "]" } }
        #expect(
            lines == [
                "line 4: products[1", "line 9: products[1", "products[2", "line 11: products[3", "line 11: products[3",
                "line 11: products[3", "line 11: products[3",
            ])
        let taken = text.replacing("\"gemAmount\": 1.5", with: "\"displayName\": \"B\", \"gemAmount\": 1")
            .replacing(", {\"type\":\"iap_consumable\"}", with: "")
        let other = #expect(throws: CatalogueError.self) { try Catalogue(json: Array(taken.utf8)) }
        #expect(
            other?.description == """
                line 7: products[1].storeProductId.ios: is also the ios product of an earlier product
                products[2]: must be an object
                """)
    }

    @Test func mistakesHaveALimit() throws {
        let json = "[" + (0...9999).map { _ in #"{"productId":1,"type":2}"# }.joined(separator: ",\n") + "]"
        let error = #expect(throws: CatalogueError.self) { try Catalogue(json: Array(json.utf8)) }
        let count = try #require(error?.mistakes.count)
        #expect(count >= Limits.catalogueFindingsMax && count < Limits.catalogueFindingsMax + 10)
    }

    @Test func reportsAllMistakesAtOnce() throws {
        let first = Samples.medium.replacing("\"gemAmount\":500", with: "\"gemAmount\":-5")
            .replacing("\"position\":2", with: "\"position\":null")
            .replacing("\"500 crystals\"", with: "4").replacing("com.mygame.gems.500", with: "")
        let error = #expect(throws: CatalogueError.self) { try Samples.catalogue(first, "3", Samples.pass) }
        #expect(
            error?.mistakes.map(\.path) == ["[0].storeProductId.ios", "[0].displayName", "[0].gemAmount", "[1]"])
        #expect(error?.description.split(separator: "\n").count == 4)
    }

    @Test func refusesNamesThatAreTaken() throws {
        let error = #expect(throws: CatalogueError.self) { try Samples.catalogue(Samples.medium, Samples.medium) }
        #expect(
            error?.mistakes.map(\.path) == ["[1].productId", "[1].storeProductId.ios", "[1].storeProductId.android"])
        let otherStore = Samples.pass.replacing(
            "\"ios\":\"com.mygame.pass\"", with: "\"android\":\"com.mygame.gems.500\"")
        #expect(try Samples.catalogue(Samples.medium, otherStore).products.count == 2)
    }

    @Test(arguments: ["", "null", "3", "{}", "{\"products\":{}}", "[1,", "[{\"productId\":\"a\",\"productId\":\"b\"}]"])
    func refusesOtherDocuments(_ text: String) {
        #expect(throws: CatalogueError.self) { try Catalogue(json: Array(text.utf8)) }
    }

    @Test func refusesMoreProductsThanTheLimit() {
        let text = "[" + String(repeating: "1,", count: Limits.catalogueProductsMax) + "1]"
        let error = #expect(throws: CatalogueError.self) { try Catalogue(json: Array(text.utf8)) }
        #expect(error?.mistakes.map(\.reason) == ["has more than 10000 products"])
    }
}
