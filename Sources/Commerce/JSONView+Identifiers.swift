public import ServiceRuntime

extension JSONView {
    /// This string as an identifier; the error names the field and the broken rule, never the text.
    public func identifier<ID: TextIdentifier>(_ type: ID.Type) throws(JSONError) -> ID {
        let text = try string()
        do throws(InvalidIdentifier) {
            return try ID(validating: text)
        } catch {
            throw self.error(error.reason)
        }
    }

    /// A required member as an identifier.
    public func identifier<ID: TextIdentifier>(_ key: String, _ type: ID.Type) throws(JSONError) -> ID {
        try required(key).identifier(type)
    }

    /// A member as an identifier; nil when it is absent or `null`.
    public func optionalIdentifier<ID: TextIdentifier>(_ key: String, _ type: ID.Type) throws(JSONError) -> ID? {
        try optional(key)?.identifier(type)
    }

    /// A required member as a value of an enumeration with text values.
    func choice<Value: RawRepresentable & CaseIterable>(
        _ key: String, _ type: Value.Type
    ) throws(JSONError) -> Value where Value.RawValue == String {
        let view = try required(key)
        guard let value = Value(rawValue: try view.string()) else {
            throw view.error("must be one of \(Value.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return value
    }
}
