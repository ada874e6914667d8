// Redis: values, connection, scripts, blocking pop, publish/subscribe, reconnect.
