#!lua flags=allow-oom
-- Says that a worker is alive. One whose name is gone was reaped and must not believe that it holds anything.
-- KEYS     meta, workers, running of the worker
-- ARGV     incarnation, worker
-- RETURNS  {now ms, how many leases the worker holds}; error TELLERWORKER when it is not registered
if redis.call('ZADD', KEYS[2], 'XX', 'CH', now, ARGV[2]) == 0 and not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
    return redis.error_reply('TELLERWORKER not registered, or reaped')
end
return {now, redis.call('HLEN', KEYS[3])}
