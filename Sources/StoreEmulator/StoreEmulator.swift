// StoreEmulator: both stores over HTTP.
