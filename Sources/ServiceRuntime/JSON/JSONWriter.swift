/// Builds compact UTF-8 JSON text by appending.
///
/// Everything Teller stores, logs or answers is written with this type: member order is the order of the calls, so
/// what is stored is the same bytes every time, and a string is copied once. `object` and `array` take a closure, so
/// brackets always match. Duplicate keys are not looked for: keys are literals side by side in the source.
///
/// ```swift
/// var writer = JSONWriter()
/// writer.object { writer in
///     writer.member("status", "credited")
///     writer.member("granted", object: { $0.member("gems", 550) })
/// }
/// ```
public struct JSONWriter: Sendable {
    /// The UTF-8 written so far.
    public private(set) var bytes: [UInt8]
    /// Whether the next value or key follows another one in the same container.
    private var needsComma = false

    /// Makes a writer with room for `capacity` bytes.
    public init(capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// The text written so far.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Forgets the text but keeps the memory, for the next document.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    // MARK: Containers

    /// Writes an object: as the document, or as an element when inside an array.
    public mutating func object<Failure: Error>(_ body: (inout JSONWriter) throws(Failure) -> Void) throws(Failure) {
        separate()
        bytes.append(UInt8(ascii: "{"))
        needsComma = false
        try body(&self)
        bytes.append(UInt8(ascii: "}"))
        needsComma = true
    }

    /// Writes an array: as the document, or as an element when inside an array.
    public mutating func array<Failure: Error>(_ body: (inout JSONWriter) throws(Failure) -> Void) throws(Failure) {
        separate()
        bytes.append(UInt8(ascii: "["))
        needsComma = false
        try body(&self)
        bytes.append(UInt8(ascii: "]"))
        needsComma = true
    }

    // MARK: Members of an object

    /// Writes a member.
    @inlinable
    public mutating func member<Value: JSONWritable>(_ key: StaticString, _ value: Value) {
        writeKey(key)
        value.write(to: &self)
    }

    /// Writes a member, or nothing when `value` is nil.
    @inlinable
    public mutating func member<Value: JSONWritable>(_ key: StaticString, _ value: Value?) {
        guard let value else { return }
        writeKey(key)
        value.write(to: &self)
    }

    /// Writes a member that is an object.
    public mutating func member<Failure: Error>(
        _ key: StaticString, object body: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        writeKey(key)
        try object(body)
    }

    /// Writes a member that is an array.
    public mutating func member<Failure: Error>(
        _ key: StaticString, array body: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        writeKey(key)
        try array(body)
    }

    /// Writes a member whose value is `json`, which must be one valid JSON value.
    public mutating func member(_ key: StaticString, raw json: [UInt8]) {
        writeKey(key)
        raw(json)
    }

    /// Writes a member whose value is `json`, which must be one valid JSON value.
    public mutating func member(_ key: StaticString, raw json: String) {
        writeKey(key)
        raw(json.utf8)
    }

    /// Writes a member that is `null`.
    public mutating func member(null key: StaticString) {
        writeKey(key)
        null()
    }

    /// Writes a member whose key is data.
    @inlinable
    public mutating func member<Value: JSONWritable>(dynamic key: String, _ value: Value) {
        writeKey(dynamic: key)
        value.write(to: &self)
    }

    /// Writes a member whose key is data and whose value is an object.
    public mutating func member<Failure: Error>(
        dynamic key: String, object body: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        writeKey(dynamic: key)
        try object(body)
    }

    /// Writes a member whose key is data and whose value is an array.
    public mutating func member<Failure: Error>(
        dynamic key: String, array body: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        writeKey(dynamic: key)
        try array(body)
    }

    /// Writes a member whose key is data and whose value is `json`, which must be one valid JSON value.
    public mutating func member(dynamic key: String, raw json: String) {
        writeKey(dynamic: key)
        raw(json.utf8)
    }

    // MARK: Elements of an array, and single values

    /// Writes an element of an array, or a document that is a single value.
    @inlinable
    public mutating func element<Value: JSONWritable>(_ value: Value) {
        value.write(to: &self)
    }

    /// Writes an element that is `json`, which must be one valid JSON value.
    public mutating func element(raw json: [UInt8]) { raw(json) }

    /// Writes an element that is `json`, which must be one valid JSON value.
    public mutating func element(raw json: String) { raw(json.utf8) }

    /// Writes `null` as a value.
    public mutating func null() { raw("null".utf8) }

    // MARK: Bytes

    @usableFromInline
    mutating func writeKey(_ key: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        key.withUTF8Buffer { utf8 in
            assert(!JSONEscape.isNeeded(in: utf8), "a literal key must need no escapes")
            bytes.append(contentsOf: utf8)
        }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    @usableFromInline
    mutating func writeKey(dynamic key: String) {
        string(key)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func string(_ value: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        value.utf8Span.span.withUnsafeBufferPointer { JSONEscape.append($0, to: &bytes) }
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    mutating func integer(_ value: Int64) {
        separate()
        JSONEscape.append(value, to: &bytes)
        needsComma = true
    }

    mutating func raw(_ json: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
    }
}
