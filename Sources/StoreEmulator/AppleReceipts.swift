import HTTP
import ServiceRuntime
import Signing

/// The old kind of receipt, a file on the phone that lists several purchases, and `verifyReceipt` that reads it.
///
/// The real file is PKCS #7 with Apple's signature. Clients must treat it as opaque, so here it is a DER header, an id,
/// and filler that is derived from the id: enough to be recognised, and to notice a changed byte.
@LoopActor
final class AppleReceipts {
    private struct Receipt {
        let environment: EmulatedEnvironment
        let bundleID: String
        let transactionIDs: [String]
    }

    private static let idBytes = 16
    private static let fileBytes = 1200

    private let configuration: StoreEmulator.Configuration
    private let book: PurchaseBook
    private var receipts: [[UInt8]: Receipt] = [:]

    init(_ configuration: StoreEmulator.Configuration, book: PurchaseBook) {
        self.configuration = configuration
        self.book = book
    }

    func removeAll() { receipts = [:] }

    /// A receipt over these transactions, which must be of one environment and app.
    func make(_ ids: [String]) throws(EmulatorError) -> String {
        let records = ids.compactMap { book.find($0, in: .apple) }
        guard records.count == ids.count else { throw .unknownPurchase }
        let first = records.first?.request
        guard records.allSatisfy({ $0.request.environment == first?.environment && $0.request.appID == first?.appID })
        else { throw .impossible("a receipt belongs to one app in one environment") }
        var system = SystemRandomNumberGenerator()
        let id = (0..<Self.idBytes).map { _ in UInt8.random(in: .min ... .max, using: &system) }
        receipts[id] = Receipt(
            environment: first?.environment ?? .production, bundleID: first?.appID ?? configuration.bundleID,
            transactionIDs: ids)
        return Base64.encode(Self.file(id))
    }

    private static func file(_ id: [UInt8]) -> [UInt8] {
        let length = fileBytes - 4
        var file: [UInt8] = [0x30, 0x82, UInt8(length >> 8), UInt8(length & 0xFF)] + id
        var block = id
        while file.count < fileBytes {
            block = Digest.sha256(block)
            file += block
        }
        return Array(file.prefix(fileBytes))
    }

    // MARK: verifyReceipt

    func verify(_ request: IncomingRequest, in environment: EmulatedEnvironment) -> OutgoingResponse {
        guard let body = try? JSONView.parse(request.body), let text = try? body.string("receipt-data"),
            let file = Base64.decode(text), file.count >= 4 + Self.idBytes
        else { return status(21_002) }
        let id = Array(file[4..<(4 + Self.idBytes)])
        guard file == Self.file(id), let receipt = receipts[id] else { return status(21_003) }
        guard receipt.environment == environment else { return status(environment == .production ? 21_007 : 21_008) }
        if let secret = configuration.appleSharedSecret {
            guard (try? body.string("password")) == secret else { return status(21_004) }
        }
        return .json(200, answer(receipt))
    }

    private func status(_ status: Int) -> OutgoingResponse { .json(200, AppleErrors.receiptStatus(status)) }

    private func answer(_ receipt: Receipt) -> [UInt8] {
        let now = configuration.clock.now
        var json = JSONWriter(capacity: 2048)
        json.object { json in
            json.member("status", 0)
            json.member("environment", receipt.environment.rawValue)
            json.member(
                "receipt",
                object: { json in
                    json.member("receipt_type", receipt.environment == .production ? "Production" : "ProductionSandbox")
                    json.member("adam_id", configuration.appleAppID)
                    json.member("bundle_id", receipt.bundleID)
                    json.member("application_version", "412")
                    json.member("original_application_version", "390")
                    json.member("receipt_creation_date_ms", String(now.value))
                    json.member("request_date_ms", String(now.value))
                    json.member(
                        "in_app",
                        array: { json in
                            for id in receipt.transactionIDs {
                                guard let record = book.read(id, in: .apple) else { continue }
                                json.object { entry(record, &$0) }
                            }
                        })
                })
        }
        return json.bytes
    }

    /// "all strings".
    private func entry(_ record: PurchaseRecord, _ json: inout JSONWriter) {
        json.member("quantity", String(record.request.quantity))
        json.member("product_id", record.request.storeProductID)
        json.member("transaction_id", record.id)
        json.member("original_transaction_id", record.originalTransactionID)
        json.member("purchase_date_ms", String(record.purchasedAt.value))
        json.member("original_purchase_date_ms", String(record.purchasedAt.value))
        json.member("is_trial_period", "false")
        json.member("in_app_ownership_type", record.request.ownership)
        json.member("app_account_token", record.request.accountToken)
        if let refundedAt = record.refundedAt {
            json.member("cancellation_date_ms", String(refundedAt.value))
            json.member("cancellation_reason", "0")
        }
    }
}
