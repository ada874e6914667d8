// ServiceRuntime: event loop, timers, signals, ordered start and stop, configuration, structured log, metrics.
