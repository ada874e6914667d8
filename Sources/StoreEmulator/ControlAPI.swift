import HTTP
import ServiceRuntime

/// The emulator's own API: buying, misbehaving, and the ground truth.
///
/// | request | does |
/// |---|---|
/// | `POST /control/purchases` | buys: one object, or `{"purchases": […]}` with up to 2,000 of them |
/// | `GET /control/purchases/{store}/{id}` | one purchase as the store sees it |
/// | `POST /control/purchases/{store}/{id}/state` | `{"state": "purchased" \| "cancelled" \| "refunded"}` |
/// | `POST /control/receipts` | `{"transactions": […]}` → an old base64 receipt over them |
/// | `GET /control/ground-truth?offset=&limit=` | who bought what, and whether it must be credited |
/// | `PUT /control/faults` | knobs for the endpoints named by `store` or `endpoint`, replacing their old ones |
/// | `DELETE /control/faults` | all knobs back to normal |
/// | `GET /control/stats` | requests for each endpoint |
/// | `POST /control/leaf` | a new leaf certificate |
/// | `POST /control/expire-tokens` | ends Google's access tokens |
/// | `GET /control/stores` | the part of a Teller configuration that fits this emulator |
/// | `POST /control/reset` | forgets everything but the keys |
extension StoreEmulator {
    static let bulkMax = 2000
    static let pageMax = 20_000

    func addControl(to router: Router) {
        router.on(.post, "/control/purchases", bodyBytesMax: 4 << 20) { [unowned self] request in
            control { try self.buy(request) }
        }
        router.on(.get, "/control/purchases/{store}/{id}") { [unowned self] request in
            control { .json(200, self.show(try self.record(in: request))) }
        }
        router.on(.post, "/control/purchases/{store}/{id}/state") { [unowned self] request in
            control {
                let record = try self.record(in: request)
                let body = try JSONView.parse(request.body)
                try self.move(record.id, to: try ControlInput.choice(body, "state"))
                return .json(200, self.show(try self.record(in: request)))
            }
        }
        router.on(.post, "/control/receipts", bodyBytesMax: 1 << 20) { [unowned self] request in
            control {
                let ids = try JSONView.parse(request.body).elements("transactions")
                    .map { view throws(JSONError) in try view.string() }
                let receipt = try self.appReceipt(of: ids)
                return .json(200, Self.json { $0.member("receipt", receipt) })
            }
        }
        router.on(.get, "/control/ground-truth") { [unowned self] request in control { try self.page(request) } }
        addKnobs(to: router)
    }

    private func addKnobs(to router: Router) {
        router.on(.put, "/control/faults") { [unowned self] request in
            control {
                let (pattern, knobs) = try ControlInput.knobs(JSONView.parse(request.body))
                guard StoreEndpointName.allCases.contains(where: { $0.matches(pattern) }) else {
                    throw EmulatorError.impossible("no endpoint is named \(pattern)")
                }
                self.setFaults(knobs, for: pattern)
                return OutgoingResponse(status: 204)
            }
        }
        router.on(.delete, "/control/faults") { [unowned self] _ in
            setFaults(FaultKnobs(), for: "*")
            return OutgoingResponse(status: 204)
        }
        router.on(.get, "/control/stats") { [unowned self] _ in
            .json(
                200,
                Self.json { json in
                    for endpoint in StoreEndpointName.allCases {
                        json.member(dynamic: endpoint.rawValue, self.requests(to: endpoint))
                    }
                })
        }
        router.on(.post, "/control/leaf") { [unowned self] _ in
            control {
                try self.replaceLeaf()
                return OutgoingResponse(status: 204)
            }
        }
        router.on(.post, "/control/expire-tokens") { [unowned self] _ in
            expireAccessTokens()
            return OutgoingResponse(status: 204)
        }
        router.on(.get, "/control/stores") { [unowned self] _ in .json(200, Array(storesConfiguration().utf8)) }
        router.on(.post, "/control/reset") { [unowned self] _ in
            reset()
            return OutgoingResponse(status: 204)
        }
    }

    /// Every mistake of a caller is a 400 with the reason.
    private func control(_ body: () throws -> OutgoingResponse) -> OutgoingResponse {
        do {
            return try body()
        } catch EmulatorError.unknownPurchase {
            return .json(404, Self.json { $0.member("error", EmulatorError.unknownPurchase.description) })
        } catch {
            return .json(400, Self.json { $0.member("error", String(describing: error)) })
        }
    }

    private func record(in request: IncomingRequest) throws -> PurchaseRecord {
        guard let store = EmulatedStore(rawValue: request.pathParameters["store"] ?? ""),
            let record = record(request.pathParameters["id"] ?? "", in: store)
        else { throw EmulatorError.unknownPurchase }
        return record
    }

    private func buy(_ request: IncomingRequest) throws -> OutgoingResponse {
        let body = try JSONView.parse(request.body)
        guard let many = try body.optionalElements("purchases") else {
            let purchase = try purchase(ControlInput.purchase(body))
            return .json(201, show(purchase.record, receipt: purchase.receipt))
        }
        guard many.count <= Self.bulkMax else {
            throw EmulatorError.impossible("at most \(Self.bulkMax) purchases at once")
        }
        // All are read before the first is bought, so that a mistake in the last one leaves nothing behind.
        let requests = try many.map { view throws(JSONError) in try ControlInput.purchase(view) }
        var json = JSONWriter(capacity: many.count * 6000)
        try json.object { json in
            try json.member(
                "purchases",
                array: { json in
                    for request in requests {
                        let purchase = try purchase(request)
                        json.element(raw: show(purchase.record, receipt: purchase.receipt))
                    }
                })
        }
        return .json(201, json.bytes)
    }

    private func page(_ request: IncomingRequest) throws -> OutgoingResponse {
        let all = groundTruth
        let offset = try ControlInput.number(request.query("offset"), default: 0, in: 0...Int.max)
        let limit = try ControlInput.number(request.query("limit"), default: 1000, in: 1...Self.pageMax)
        let page = all.dropFirst(offset).prefix(limit)
        var json = JSONWriter(capacity: page.count * 600)
        json.object { json in
            json.member("total", all.count)
            json.member("offset", offset)
            json.member("purchases", array: { json in for record in page { json.element(raw: show(record)) } })
        }
        return .json(200, json.bytes)
    }

    private static func json(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter()
        json.object(body)
        return json.bytes
    }

    private func show(_ record: PurchaseRecord, receipt: String? = nil) -> [UInt8] {
        let request = record.request
        let duty = duty(of: record)
        return Self.json { json in
            json.member("store", record.store.rawValue)
            json.member("id", record.id)
            json.member("serial", record.serial)
            json.member("player", request.player)
            json.member(
                "appId", request.appID ?? (record.store == .apple ? configuration.bundleID : configuration.packageName))
            json.member("productId", request.storeProductID)
            json.member("type", request.type)
            json.member("quantity", request.quantity)
            json.member("state", record.state.rawValue)
            json.member("purchasedAt", record.purchasedAt.value)
            json.member("refundedAt", record.refundedAt?.value)
            json.member("accountToken", request.accountToken)
            json.member("reads", record.reads)
            json.member("duty", duty.rawValue)
            json.member("mustBeCredited", duty == .must)
            switch record.store {
            case .apple:
                json.member("environment", request.environment.rawValue)
                json.member("transactionId", record.id)
                json.member("originalTransactionId", record.originalTransactionID)
                json.member("ownership", request.ownership)
                json.member("signer", request.signer.rawValue)
            case .google:
                json.member("purchaseToken", record.id)
                json.member("orderId", record.orderID)
                json.member("purchaseState", record.state.googleCode)
                json.member("consumptionState", record.isConsumed ? 1 : 0)
                json.member("acknowledgementState", record.isAcknowledged ? 1 : 0)
                json.member("isTest", request.isTest)
                json.member("isPromo", request.isPromo)
            }
            json.member("receipt", receipt)
        }
    }
}
