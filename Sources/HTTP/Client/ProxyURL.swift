import CCurl

extension HTTPClient.Configuration {
    /// Whether a text is `http://host:port` (or `https://`), as ``proxy`` takes it.
    ///
    /// libcurl says what it understands, since it is what reads the text in the end. The port must be there: libcurl's
    /// default for proxies is 1080, where no HTTP proxy listens ("CURLOPT_PROXY").
    public static func isProxy(_ url: String) -> Bool {
        guard let handle = curl_url() else { return false }
        defer { curl_url_cleanup(handle) }
        guard curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK else { return false }
        func part(_ part: CURLUPart) -> String? {
            var text: UnsafeMutablePointer<CChar>?
            defer { curl_free(text) }
            guard curl_url_get(handle, part, &text, 0) == CURLUE_OK, let text else { return nil }
            return String(cString: text)
        }
        return ["http", "https"].contains(part(CURLUPART_SCHEME)) && part(CURLUPART_PORT) != nil
            && part(CURLUPART_PATH) == "/" && part(CURLUPART_QUERY) == nil && part(CURLUPART_FRAGMENT) == nil
    }
}
