// HTTP: one vocabulary; curl client; microhttpd server; router; problem+json.
