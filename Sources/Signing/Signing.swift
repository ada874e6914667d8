// Signing: JWS, certificate chain policy, JWT minting, digests.
