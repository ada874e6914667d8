public import ServiceRuntime

extension GoogleConfiguration.ServiceAccount {
    /// Largest field believed in a key file.
    private static let fieldBytesMax = 16 << 10

    /// Reads a service account's key file as Google hands it out.
    ///
    /// - Throws: `JSONError` naming the field that is missing or wrong; never its value.
    public init(keyFile bytes: [UInt8]) throws(JSONError) {
        let file = try JSONView.parse(bytes).object()
        let type = try file.required("type")
        guard try type.string() == "service_account" else { throw type.error("must be \"service_account\"") }
        self.init(
            clientEmail: try file.string("client_email", maxBytes: Self.fieldBytesMax),
            privateKeyPEM: Secret(try file.string("private_key", maxBytes: Self.fieldBytesMax)),
            privateKeyID: try file.string("private_key_id", maxBytes: Self.fieldBytesMax))
        if let url = try file.optionalString("token_uri", maxBytes: Self.fieldBytesMax) { tokenURL = url }
    }
}
