#!lua flags=allow-oom
-- Says that a worker is alive, and carries on the pulse that all workers share.
-- The pulse tells since when heartbeats have come, anybody's, with no pause in which a living worker could have fallen
-- silent through no fault of its own. Longer pauses are outages of Redis (or a time without workers), and so are jumps
-- of its clock: the pulse then begins anew, and nobody is reaped for a lease (see reap.lua).
-- It also adds up by how much the clock was ever set back. `retry.lua` and `lease.lua` go by the sum of Redis's time
-- and that. It goes back with the clock, too, by as much, until the next heartbeat finds out and makes it good (but for
-- what had passed since the one before). When this key is lost it goes back for good, by all that was ever added up:
-- what was put aside by then sleeps that much longer.
-- KEYS     meta, workers, running of the worker, pulse
-- ARGV     incarnation, worker, longest pause in ms, "new" to make the name known before the first lease. Else one
--          whose name is gone was reaped, and must not believe that it holds anything
-- RETURNS  {now ms, how many leases the worker holds}; error TELLERWORKER when it is not registered
local pulse = redis.call('HMGET', KEYS[4], 'lastMs', 'sinceMs', 'setBackMs')
if ARGV[4] ~= 'new' and not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
    return redis.error_reply('TELLERWORKER not registered, or reaped')
end
local last, since = tonumber(pulse[1]), tonumber(pulse[2])
if last and now < last then
    -- The clock was set back. A heartbeat from the future would keep a dead worker alive until the clock is there again.
    for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf')) do
        redis.call('ZADD', KEYS[2], now, worker)
    end
    -- Nor may what was put aside wait for it: retries are due by a clock that does not go back.
    redis.call('HSET', KEYS[4], 'setBackMs', (pulse[3] or 0) + last - now)
end
if not last or not since or now < last or now - last > tonumber(ARGV[3]) then since = now end
redis.call('HSET', KEYS[4], 'lastMs', now, 'sinceMs', since)
redis.call('ZADD', KEYS[2], now, ARGV[2])
return {now, redis.call('HLEN', KEYS[3])}
