extension JSONView {
    /// A required string member of at most `maxBytes` bytes of UTF-8.
    public func string(_ key: String, maxBytes: Int = .max) throws(JSONError) -> String {
        try required(key).string(maxBytes: maxBytes)
    }

    /// A string member; nil when it is absent or `null`.
    public func optionalString(_ key: String, maxBytes: Int = .max) throws(JSONError) -> String? {
        try optional(key)?.string(maxBytes: maxBytes)
    }

    /// A required integer member in `range`.
    public func int64(_ key: String, in range: ClosedRange<Int64> = .min ... .max) throws(JSONError) -> Int64 {
        try required(key).int64(in: range)
    }

    /// An integer member in `range`; nil when it is absent or `null`.
    public func optionalInt64(_ key: String, in range: ClosedRange<Int64> = .min ... .max) throws(JSONError) -> Int64? {
        try optional(key)?.int64(in: range)
    }

    /// A required number member.
    public func double(_ key: String) throws(JSONError) -> Double {
        try required(key).double()
    }

    /// A number member; nil when it is absent or `null`.
    public func optionalDouble(_ key: String) throws(JSONError) -> Double? {
        try optional(key)?.double()
    }

    /// A required `true` or `false` member.
    public func bool(_ key: String) throws(JSONError) -> Bool {
        try required(key).bool()
    }

    /// A `true` or `false` member; nil when it is absent or `null`.
    public func optionalBool(_ key: String) throws(JSONError) -> Bool? {
        try optional(key)?.bool()
    }

    /// A required object member.
    public func object(_ key: String) throws(JSONError) -> JSONView {
        try required(key).object()
    }

    /// An object member; nil when it is absent or `null`.
    public func optionalObject(_ key: String) throws(JSONError) -> JSONView? {
        try optional(key)?.object()
    }

    /// The elements of a required array member.
    public func elements(_ key: String) throws(JSONError) -> [JSONView] {
        try required(key).elements()
    }

    /// The elements of an array member; nil when it is absent or `null`.
    public func optionalElements(_ key: String) throws(JSONError) -> [JSONView]? {
        try optional(key)?.elements()
    }

    /// Compact JSON of this node, members in the order of the document, strings unescaped where JSON allows it.
    public func serialized() -> String {
        var writer = JSONWriter()
        writer.element(self)
        return writer.text
    }
}

extension JSONView: JSONWritable {
    /// Writes this node and everything below it.
    public func write(to writer: inout JSONWriter) {
        // The accessors below cannot fail: each is called for the kind it is made for.
        switch kind {
        case .object:
            writer.object { writer in
                for (key, value) in (try? members()) ?? [] { writer.member(dynamic: key, value) }
            }
        case .array:
            writer.array { writer in
                for value in (try? elements()) ?? [] { writer.element(value) }
            }
        case .string: ((try? string()) ?? "").write(to: &writer)
        case .integer: ((try? int64()) ?? 0).write(to: &writer)
        case .real: ((try? double()) ?? 0).write(to: &writer)
        case .bool: ((try? bool()) ?? false).write(to: &writer)
        case .null: writer.null()
        }
    }
}
