import Glibc
import ServiceRuntime

/// One object of the configuration file, seen together with the environment, that collects *every* mistake.
///
/// A setting's path names it everywhere: `redis.url` in the file, `TELLER_REDIS_URL` in the environment (which wins),
/// `redis.url: …` in an error. Reading never throws: a mistake is noted, a stand-in is returned, and whoever reads the
/// whole configuration looks at the notes at the end. Values never appear in a mistake, since some are secrets.
struct Settings {
    /// What is common to all objects of one configuration.
    final class Notes {
        var mistakes: [String] = []
        var warnings: [String] = []
        var variablesRead: Set<String> = []
        /// Paths of settings about which nothing more needs to be said.
        var placeholders: Set<String> = []
        let environment: [String: String]
        let part: TellerConfiguration.Part
        let readFile: (String) throws -> [UInt8]

        init(
            environment: [String: String], part: TellerConfiguration.Part,
            readFile: @escaping (String) throws -> [UInt8]
        ) {
            self.environment = environment
            self.part = part
            self.readFile = readFile
        }
    }

    let notes: Notes
    private let path: String
    private let view: JSONView?
    private let known: Box

    private final class Box { var keys: Set<String> = ["_comment"] }

    init(root view: JSONView?, notes: Notes) { self.init(path: "", view: view, notes: notes) }

    private init(path: String, view: JSONView?, notes: Notes) {
        self.path = path
        self.notes = notes
        known = Box()
        guard let view, !view.isNull else {
            self.view = nil
            return
        }
        if view.kind == .object {
            self.view = view
        } else {
            self.view = nil
            notes.mistakes.append("\(path.isEmpty ? "the configuration" : path): must be an object")
        }
    }

    // MARK: - Structure

    /// Whether the file has the object `key`, or the environment names its setting `essential`.
    ///
    /// Without either, variables for it have no effect, which is said and is no mistake: a service unit may set the same
    /// ones for every deployment.
    func has(_ key: String, essential: String) -> Bool {
        if let value = view?[key], !value.isNull { return true }
        let section = section(key)
        if notes.environment[section.variable(essential)] != nil { return true }
        for name in notes.environment.keys.sorted() where name.hasPrefix(variable(key) + "_") {
            notes.variablesRead.insert(name)
            notes.warnings.append("\(name): has no effect, since \(section.full(essential)) is not set")
        }
        return false
    }

    func section(_ key: String) -> Settings {
        known.keys.insert(key)
        return Settings(path: full(key), view: view?[key], notes: notes)
    }

    func sections(_ key: String) -> [Settings] {
        known.keys.insert(key)
        guard let list = view?[key] else { return [] }
        do {
            return try list.elements().enumerated().map { index, element in
                Settings(path: "\(full(key))[\(index)]", view: element, notes: notes)
            }
        } catch {
            notes.mistakes.append("\(full(key)): must be an array of objects")
            return []
        }
    }

    /// To be called after everything was read: whatever is left over is a misspelt setting.
    func refuseUnknownKeys() {
        for key in view?.unknownKeys(besides: known.keys) ?? [] {
            let hint = Spelling.guess(key, among: known.keys).map { "; did you mean \($0)?" } ?? ""
            notes.mistakes.append("\(full(key)): is not a setting\(hint)")
        }
    }

    func mistake(_ key: String, _ reason: String) {
        guard !notes.placeholders.contains(full(key)) else { return }
        notes.mistakes.append("\(full(key)): \(reason)")
    }
    func warning(_ key: String, _ text: String) { notes.warnings.append("\(full(key)): \(text)") }

    // MARK: - Values

    func string(_ key: String) -> String? {
        known.keys.insert(key)
        let text = fromEnvironment(key) ?? stringInFile(key)
        if let text { refusePlaceholder(key, among: [text]) }
        return text
    }

    private func stringInFile(_ key: String) -> String? {
        guard let value = view?[key], !value.isNull else { return nil }
        do {
            return try value.string()
        } catch {
            mistake(key, "must be a string")
            return nil
        }
    }

    /// What deploy/teller.example.json has in the place of values that nobody can know but its reader begins like this.
    private func refusePlaceholder(_ key: String, among texts: [String]) {
        guard texts.contains(where: { $0.hasPrefix("REPLACE-") }) else { return }
        mistake(key, "is still the example's: put in your own")
        notes.placeholders.insert(full(key))
    }

    func required(_ key: String, example: String) -> String {
        if let text = string(key), !text.isEmpty { return text }
        mistake(key, "is required, for example \(example)")
        return ""
    }

    func integer(_ key: String, in range: ClosedRange<Int>, default standard: Int) -> Int {
        known.keys.insert(key)
        let number: Int64?
        if let text = fromEnvironment(key) {
            number = Int64(text)
        } else if let value = view?[key], !value.isNull {
            number = try? value.int64()
        } else {
            return standard
        }
        guard let number, let number = Int(exactly: number), range.contains(number) else {
            mistake(key, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
            return standard
        }
        return number
    }

    func flag(_ key: String) -> Bool {
        known.keys.insert(key)
        if let text = fromEnvironment(key) {
            if ["true", "1", "yes"].contains(text) { return true }
            if !["false", "0", "no", ""].contains(text) { mistake(key, "must be true or false") }
            return false
        }
        guard let value = view?[key], !value.isNull else { return false }
        guard let flag = try? value.bool() else {
            mistake(key, "must be true or false")
            return false
        }
        return flag
    }

    /// A list of strings; comma-separated in the environment.
    func strings(_ key: String) -> [String]? {
        known.keys.insert(key)
        let texts = fromEnvironment(key)?.split(separator: ",").map(String.init) ?? stringsInFile(key)
        if let texts { refusePlaceholder(key, among: texts) }
        return texts
    }

    private func stringsInFile(_ key: String) -> [String]? {
        guard let value = view?[key], !value.isNull else { return nil }
        guard let elements = try? value.elements(), let texts = try? elements.map({ try $0.string() }) else {
            mistake(key, "must be an array of strings")
            return nil
        }
        return texts
    }

    /// The content of the file that `key` names, without the newline at its end.
    ///
    /// Nil as well when there is none or a mistake was noted.
    func file(_ key: String) -> [UInt8]? {
        guard let path = string(key) else { return nil }
        do {
            var bytes = try notes.readFile(path)
            while let last = bytes.last, last == 0x0A || last == 0x0D { bytes.removeLast() }
            if bytes.isEmpty {
                mistake(key, "the file is empty")
                return nil
            }
            return bytes
        } catch {
            mistake(key, "cannot be read: \(error)")
            return nil
        }
    }

    func textFile(_ key: String) -> String? {
        guard let bytes = file(key) else { return nil }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            mistake(key, "the file is not text")
            return nil
        }
        return text
    }

    /// A store's secret, as ``file(_:)``; nil without opening the file when only the front is read.
    func secret(_ key: String) -> [UInt8]? {
        guard notes.part == .whole else {
            _ = string(key)
            return nil
        }
        return file(key)
    }

    /// As ``secret(_:)``, as text.
    func secretText(_ key: String) -> String? {
        guard notes.part == .whole else {
            _ = string(key)
            return nil
        }
        return textFile(key)
    }

    // MARK: - Names

    private func full(_ key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }

    private func fromEnvironment(_ key: String) -> String? {
        let name = variable(key)
        guard let text = notes.environment[name] else { return nil }
        notes.variablesRead.insert(name)
        return text
    }

    /// `api.operationsListen` → `TELLER_API_OPERATIONS_LISTEN`, `google.baseURL` → `TELLER_GOOGLE_BASE_URL`.
    private func variable(_ key: String) -> String {
        var name = "TELLER_"
        var isInWord = false
        for character in full(key) {
            if character == "." || character == "-" {
                name += "_"
            } else {
                if character.isUppercase, isInWord { name += "_" }
                name += character.uppercased()
            }
            isInWord = character.isLowercase || character.isNumber
        }
        return name
    }
}
