import HTTP
import ServiceRuntime

/// What the lab asks the emulated stores to sell.
struct PurchaseOrder: Sendable, Equatable {
    var store: String
    var player: String
    var storeProductID: String
    var accountToken: String?
    var signer: String?
    var appID: String?
    var isPending = false
}

/// A purchase as it came back: its name at the store, and the receipt for the phone.
struct BoughtPurchase: Sendable {
    /// Transaction id or purchase token.
    let id: String
    let receipt: String
}

/// One line of the emulator's ground truth.
struct TruthRecord: Sendable, Equatable {
    enum Duty: String, Sendable {
        case must
        case may
        case mustNot = "must-not"
    }

    let store: String
    let id: String
    let originalID: String
    let serial: Int
    let player: String
    let storeProductID: String
    let type: String
    let quantity: Int64
    let environment: String
    let duty: Duty
    /// Google: whether the store waits for a consumption or an acknowledgement; not of what was taken back or not paid.
    let isPaidFor: Bool
    /// Google: what it was told.
    let isConsumed: Bool
    let isAcknowledged: Bool

    /// The purchase key, by its documentation: a non-consumable of Apple's is named by its first transaction.
    var key: String {
        guard store == "apple" else { return "google:" + id }
        return "apple:\(environment):" + (type == "Non-Consumable" ? originalID : id)
    }

    /// For people; a purchase token is worth money and stays out of texts.
    var label: String { store == "apple" ? "apple \(id)" : "google purchase #\(serial)" }
}

/// The emulator's control API, as a client that knows only its documentation.
@LoopActor
final class EmulatorClient {
    static let buyMax = 250
    private static let pageSize = 10_000
    private static let answerBytesMax = 64 << 20

    private let baseURL: String
    private let http: HTTPClient

    init(_ baseURL: String) {
        self.baseURL = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        http = HTTPClient(logger: .disabled)
    }

    func stop() async { await http.stop() }

    /// Buys up to ``buyMax`` things at once.
    func buy(_ orders: [PurchaseOrder]) async throws(LabError) -> [BoughtPurchase] {
        var json = JSONWriter(capacity: orders.count * 160)
        json.object { json in
            json.member("purchases", array: { json in for order in orders { json.object(order.write) } })
        }
        let answer = try await ask(.post, "/control/purchases", body: json.bytes, expecting: 201)
        return try read(answer) { view throws(JSONError) in
            var bought: [BoughtPurchase] = []
            for element in try view.elements("purchases") {
                bought.append(BoughtPurchase(id: try element.string("id"), receipt: try element.string("receipt")))
            }
            return bought
        }
    }

    /// Makes every answer of a store this late from now on.
    func delay(store: String, by latency: Duration) async throws(LabError) {
        var json = JSONWriter()
        json.object { json in
            json.member("store", store)
            json.member("latencyMs", latency.inMilliseconds)
        }
        _ = try await ask(.put, "/control/faults", body: json.bytes, expecting: 204)
    }

    /// Everything that was ever bought, in order.
    func groundTruth() async throws(LabError) -> [TruthRecord] {
        var records: [TruthRecord] = []
        while true {
            let query = "/control/ground-truth?offset=\(records.count)&limit=\(Self.pageSize)"
            let answer = try await ask(.get, query, expecting: 200)
            let (page, total) = try read(answer) { view throws(JSONError) in
                var page: [TruthRecord] = []
                for element in try view.elements("purchases") { page.append(try TruthRecord(element)) }
                return (page, Int(try view.int64("total")))
            }
            records += page
            if page.isEmpty || records.count >= total { return records }
        }
    }

    private func ask(
        _ method: HTTPMethod, _ path: String, body: [UInt8]? = nil, expecting status: Int
    ) async throws(LabError) -> [UInt8] {
        let request = OutgoingRequest(
            method, baseURL + path, body: body, deadline: .seconds(60), answerBytesMax: Self.answerBytesMax)
        let answer: HTTPAnswer
        do throws(HTTPClientError) {
            answer = try await http.send(request)
        } catch {
            throw .emulator(error.description)
        }
        guard answer.status == status else {
            throw .emulator("answered \(answer.status): \(String(decoding: answer.body.prefix(300), as: UTF8.self))")
        }
        return answer.body
    }

    private func read<Value>(
        _ bytes: [UInt8], _ body: (JSONView) throws(JSONError) -> Value
    ) throws(LabError) -> Value {
        do throws(JSONError) {
            return try body(try JSONView.parse(bytes))
        } catch {
            throw .emulator("its answer cannot be read: \(error)")
        }
    }
}

extension PurchaseOrder {
    fileprivate func write(to json: inout JSONWriter) {
        json.member("store", store)
        json.member("player", player)
        json.member("productId", storeProductID)
        json.member("accountToken", accountToken)
        json.member("signer", signer)
        json.member("appId", appID)
        if isPending { json.member("state", "pending") }
    }
}

extension TruthRecord {
    init(_ view: JSONView) throws(JSONError) {
        store = try view.string("store")
        id = try view.string("id")
        originalID = try view.optionalString("originalTransactionId") ?? id
        serial = Int(try view.int64("serial"))
        player = try view.string("player")
        storeProductID = try view.string("productId")
        type = try view.string("type")
        quantity = try view.int64("quantity")
        environment = try view.optionalString("environment") ?? "Production"
        isPaidFor = try view.string("state") == "purchased"
        isConsumed = try view.optionalInt64("consumptionState") == 1
        isAcknowledged = try view.optionalInt64("acknowledgementState") == 1
        let word = try view.required("duty")
        guard let duty = Duty(rawValue: try word.string()) else { throw word.error("is not a known duty") }
        self.duty = duty
    }
}
