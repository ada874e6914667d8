import ServiceRuntime

extension Product {
    /// Every field that ``parse(_:mistakes:)`` reads.
    static let fields = [
        "productId", "type", "storeProductId", "displayName", "description", "gemAmount", "bonusGemAmount", "badge",
        "position", "isVisible",
    ]

    /// Reads one element of the catalogue file.
    ///
    /// Every mistake is added to `mistakes`; nil when there was one.
    static func parse(_ view: JSONView, mistakes: inout [JSONError]) -> Product? {
        func take<Value>(_ read: () throws(JSONError) -> Value) -> Value? {
            do throws(JSONError) {
                return try read()
            } catch {
                mistakes.append(error)
                return nil
            }
        }
        let before = mistakes.count
        guard take({ () throws(JSONError) in try view.object() }) != nil else { return nil }
        let amounts: ClosedRange<Int64> = 0...Limits.amountMax
        let id = take { () throws(JSONError) in try view.identifier("productId", ProductID.self) }
        let type = take { () throws(JSONError) in try productType(view) }
        let stores = storeProductIDs(view, mistakes: &mistakes)
        let name = take { () throws(JSONError) in try nonEmpty(view, "displayName") }
        let summary = take { () throws(JSONError) in try view.optionalString("description") ?? "" }
        let gems = take { () throws(JSONError) in
            type == .nonConsumable
                ? try view.optionalInt64("gemAmount", in: amounts) ?? 0 : try view.int64("gemAmount", in: amounts)
        }
        let bonus = take { () throws(JSONError) in try view.optionalInt64("bonusGemAmount", in: amounts) ?? 0 }
        let badge = take { () throws(JSONError) in try view.optionalString("badge") }
        let position = take { () throws(JSONError) in try view.optionalInt64("position") ?? 0 }
        let isVisible = take { () throws(JSONError) in try view.optionalBool("isVisible") ?? true }
        guard mistakes.count == before, let id, let type, let name, let summary, let gems, let bonus, let badge,
            let position, let isVisible
        else { return nil }
        if let mistake = amountMistake(view, type: type, gems: gems, bonus: bonus) {
            mistakes.append(mistake)
            return nil
        }
        return Product(
            id: id, type: type, storeProductIDs: stores, displayName: name, summary: summary, gemAmount: gems,
            bonusGemAmount: bonus, badge: badge, position: position, isVisible: isVisible, json: view.serialized(),
            snapshotJSON: snapshot(type: type, name: name, gems: gems, bonus: bonus))
    }

    private static func productType(_ view: JSONView) throws(JSONError) -> ProductType {
        let type = try view.choice("type", ProductType.self)
        guard type != .subscription else {
            throw try view.required("type").error("subscriptions are not supported yet")
        }
        return type
    }

    private static func nonEmpty(_ view: JSONView, _ key: String) throws(JSONError) -> String {
        let member = try view.required(key)
        let text = try member.string()
        guard !text.isEmpty else { throw member.error("is empty") }
        return text
    }

    private static func storeProductIDs(_ view: JSONView, mistakes: inout [JSONError]) -> [Store: StoreProductID] {
        var found: [Store: StoreProductID] = [:]
        do throws(JSONError) {
            let stores = try view.object("storeProductId")
            let before = mistakes.count
            for store in Store.allCases {
                do throws(JSONError) {
                    found[store] = try stores.optionalIdentifier(store.platform, StoreProductID.self)
                } catch {
                    mistakes.append(error)
                }
            }
            if found.isEmpty, mistakes.count == before { throw stores.error("names no product for ios or android") }
        } catch {
            mistakes.append(error)
        }
        return found
    }

    private static func amountMistake(_ view: JSONView, type: ProductType, gems: Int64, bonus: Int64) -> JSONError? {
        // Both are at most 2^53 − 1, so the sum cannot overflow.
        let sum = gems + bonus
        if sum > Limits.amountMax { return view.error("gemAmount and bonusGemAmount together are more than 2^53 - 1") }
        if type == .consumable, sum == 0 { return view.error("a consumable must grant gems") }
        return nil
    }

    private static func snapshot(type: ProductType, name: String, gems: Int64, bonus: Int64) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("type", type.rawValue)
            writer.member("displayName", name)
            writer.member("gemAmount", gems)
            writer.member("bonusGemAmount", bonus)
        }
        return writer.text
    }
}
