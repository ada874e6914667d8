#!lua flags=allow-oom
-- Makes a worker known before its first lease, so that whatever it leases can be reaped.
-- KEYS     meta, workers
-- ARGV     incarnation, worker
-- RETURNS  {now ms}
redis.call('ZADD', KEYS[2], now, ARGV[2])
return {now}
