#!lua flags=allow-oom
-- Claims a purchase while Redis's memory is full; otherwise a plain HSETNX does, at a third of the cost.
--
-- KEYS     bucket of claims
-- ARGV     mark (digest of the purchase key), user id
-- RETURNS  1 when it is claimed now, 0 when it had been
return redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
