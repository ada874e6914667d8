import Commerce
import Operations
import ServiceRuntime

let verifyCommand = Command(
    "verify", "explains a receipt, without network and without crediting anything",
    details: """
        Reads the receipt from FILE, or from standard input when FILE is "-": the receipt alone, or the JSON of a request
        or a job with it in "receiptData". Prints what it contains and every check, passed or failed and why. Without
        --bundle-id and --environment it only tells that the receipt is Apple's. A refund is seen only when the receipt
        is younger than it. Exit code 0: verified; 1: refused; 2: called wrongly.

        Example: teller verify --bundle-id com.example.game --environment Production receipt.jws
        """,
    operands: "FILE",
    options: [
        .init("root", "SHA256", "fingerprint of another trusted root, for tests (default: Apple Root CA G3)"),
        .init("bundle-id", "ID", "the app it must be for"),
        .init("environment", "NAME", "Production or Sandbox"),
        .init("at", "TIME", "judge as of this time, for example 2026-11-30T12:00:00Z (default: now)"),
    ]
) { arguments in
    guard let path = arguments.operands.first, arguments.operands.count == 1 else {
        throw UsageError("give one file, or - for standard input")
    }
    var expectation = ReceiptExplanation.Expectation(bundleID: arguments.string("bundle-id"))
    if let root = arguments.string("root") {
        guard expectation.trust(fingerprint: root) else {
            throw UsageError("--root: must be 64 hex digits, with or without colons")
        }
    }
    if let name = arguments.string("environment") {
        guard let environment = StoreEnvironment(rawValue: name) else {
            throw UsageError("--environment: must be Production or Sandbox")
        }
        expectation.environment = environment
    }
    if let time = arguments.string("at") {
        guard let at = UnixMilliseconds(rfc3339: time) else {
            throw UsageError("--at: must be a time such as 2026-11-30T12:00:00Z")
        }
        expectation.at = at
    }
    let bytes = try Foundations.contents(
        ofFile: path, bytesMax: Limits.bodyWithAppReceiptBytesMax, orStandardInput: true)
    guard let text = String(validating: bytes, as: UTF8.self) else { throw UsageError("\(path): is not text") }
    let explanation = ReceiptExplanation(text, expectation)
    print(explanation.text)
    return explanation.isVerified ? 0 : 1
}

let configCheckCommand = Command(
    "config check", "reads the configuration and says everything that is wrong with it",
    details: """
        Reads the configuration file, the environment, every file they name, and the catalogue; sends nothing. Exit code
        0: usable, perhaps with warnings; 1: mistakes.
        """,
    options: [
        Foundations.options[0],
        .init("front", nil, "as the API sees it, which opens none of the stores' secrets"),
    ]
) { arguments in
    let (path, _, findings) = try Foundations.read(arguments, arguments.has("front") ? .front : .whole)
    var (mistakes, warnings) = (findings.mistakes, findings.warnings)
    if let draft = findings.draft {
        do {
            _ = try Foundations.address(draft)
        } catch {
            mistakes.append("\(error)")
        }
        // That it is not named has been said.
        if !draft.cataloguePath.isEmpty {
            do {
                let catalogue = try Catalogue(json: Foundations.contents(ofFile: draft.cataloguePath))
                print("catalogue: \(catalogue.products.count) product\(catalogue.products.count == 1 ? "" : "s")")
                warnings += catalogue.warnings.map { "catalogue: \($0)" }
            } catch let error as CatalogueError {
                mistakes += error.mistakes.map { "catalogue: \($0)" }
            } catch {
                mistakes.append("catalogue: \(error)")
            }
        }
    }
    for warning in warnings { print("WARNING  \(warning)") }
    for mistake in mistakes { print("MISTAKE  \(mistake)") }
    let summary = mistakes.isEmpty ? "usable" : mistakes.count == 1 ? "1 mistake" : "\(mistakes.count) mistakes"
    print("\(path ?? "environment only"): \(summary)")
    return mistakes.isEmpty ? 0 : 1
}

let versionCommand = Command("version", "prints the version") { _ in
    print("teller 0.1.0")
    return 0
}
