#!lua flags=allow-oom
-- Takes up to n jobs into the worker's running hash: due retries, then arrived, then pending; beats the heart.
-- A job that was in too many crashed workers (a suspect) is leased alone, so that its next crash proves something. Who
-- does that is a ward. There is always one, which first lets go of everything else; a second and third only of workers
-- that hold nothing anyway, so that no suspect waits for one that hangs at its store; and of
-- several living workers one is never a ward, so that suspects do not keep everybody from ordinary work.
-- KEYS     meta, workers, running of the worker, retry, arrived, pending, suspects, wards (until when), pulse
-- ARGV     incarnation, worker, queue, n, number of the first lease, ward ms, crashes that make a suspect
-- RETURNS  {now ms, mode, {lease, entry, lease, entry, …}}; mode: "normal"; "alone" (the one lease is a suspect, or
--          the worker holds one); "drain" (lease nothing until the worker holds nothing)
-- error TELLERWORKER when the worker is not registered
local worker, queue, wanted, number = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local running = KEYS[3]
if redis.call('ZADD', KEYS[2], 'XX', 'CH', now, worker) == 0 and not redis.call('ZSCORE', KEYS[2], worker) then
    return redis.error_reply('TELLERWORKER not registered, or reaped')
end

local held = redis.call('HLEN', running)
if held == 1 then
    if string.find(redis.call('HKEYS', running)[1], '!', 1, true) then
        redis.call('ZADD', KEYS[8], now + ARGV[6], worker)
        return {now, 'alone', {}}
    end
end
if redis.call('LLEN', KEYS[7]) > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[8], '-inf', now)
    -- From the future: the clock was set back, and who wrote it may be dead.
    redis.call('ZREMRANGEBYSCORE', KEYS[8], '(' .. string.format('%.0f', now + ARGV[6]), '+inf')
    local wards = redis.call('ZCARD', KEYS[8])
    if redis.call('ZSCORE', KEYS[8], worker) or wards == 0
        or held == 0 and wards + 1 < redis.call('ZCOUNT', KEYS[2], now - ARGV[6], '+inf') then
        redis.call('ZADD', KEYS[8], now + ARGV[6], worker)
        if held > 0 then return {now, 'drain', {}} end
        local lease, entry = queue .. '!' .. ARGV[5], redis.call('RPOP', KEYS[7])
        redis.call('HSET', running, lease, entry)
        return {now, 'alone', {lease, entry}}
    end
end

local leased = {}
local count = 0
local limit = tonumber(ARGV[7])
local function take(entries, step)
    for i = 1, #entries, step do
        local entry = entries[i]
        local crashes = string.match(entry, '^T1 %S+ %d+ %d+ (%d+)')
        if crashes and tonumber(crashes) >= limit then
            redis.call('LPUSH', KEYS[7], entry)
        else
            leased[count + 1] = queue .. ':' .. string.format('%.0f', number)
            leased[count + 2] = entry
            count = count + 2
            number = number + 1
        end
        wanted = wanted - 1
    end
end

-- Typed reads first: nothing may fail once something was popped, for Redis does not roll a script back.
redis.call('LLEN', KEYS[5])
redis.call('LLEN', KEYS[6])
-- Counted before it is popped: ZPOPMIN alone would also take what is not due.
local due = redis.call('ZCOUNT', KEYS[4], '-inf', now + (redis.call('HGET', KEYS[9], 'setBackMs') or 0))
if due > 0 and wanted > 0 then take(redis.call('ZPOPMIN', KEYS[4], math.min(due, wanted)), 2) end
if wanted > 0 then take(redis.call('RPOP', KEYS[5], wanted) or {}, 1) end
if wanted > 0 then take(redis.call('RPOP', KEYS[6], wanted) or {}, 1) end
if count > 0 then redis.call('HSET', running, unpack(leased)) end
return {now, 'normal', leased}
