#!lua flags=allow-oom
-- Takes a worker off the register at its ordered end, unless it still holds leases: those are for the reaper.
-- KEYS     meta, workers, running of the worker
-- ARGV     incarnation, worker
-- RETURNS  how many leases it still holds (0: its name is gone)
local held = redis.call('HLEN', KEYS[3])
if held == 0 then redis.call('ZREM', KEYS[2], ARGV[2]) end
return held
