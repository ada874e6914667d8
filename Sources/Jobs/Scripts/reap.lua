#!lua flags=allow-oom
-- Takes up to n jobs from one worker whose heartbeat stopped, and its name once it holds nothing.
-- Nobody may judge on the strength of a silence that is Redis's own. So all of this must hold, else "wait":
-- 1. The pulse (heartbeat.lua) has had no long pause for a whole lease, and its last beat was a moment ago. Whoever is
--    alive could then speak; a sweep that was sent before an outage and runs after it finds the long pause, or a pulse
--    that has just begun anew.
-- 2. The sweeper's own last heartbeat was answered before it sent this, and ran a moment ago: Redis answers in time.
--    Where every reply takes seconds, the beats of many workers make a pulse without pauses, and each is old all the same.
-- 3. The sweeper is not taken for dead itself.
-- KEYS     meta, workers, dead, dead index, pulse
-- ARGV     incarnation, worker that sweeps, lease ms, longest pause in ms, its last answered heartbeat ms, n, how many
--          stale workers to pass over, key prefix, crashes that make a suspect, crashes alone that bury, channel,
--          status seconds
-- RETURNS  {"wait"} (too early to judge), {"none"}, or {"reaped", worker, to pending, to suspects, buried, failed,
--          1 when the worker's name is gone}
local workers, period, pause, prefix = KEYS[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[8]
-- A time from the future (the clock was set back) is no evidence of anything.
local function happened(ms, within) return ms and now >= ms + 0 and now - ms <= within end
local pulse = redis.call('HMGET', KEYS[5], 'lastMs', 'sinceMs')
if not happened(pulse[1], pause) or not pulse[2] or now - pulse[2] < period or not happened(ARGV[5], pause)
    or not happened(redis.call('ZSCORE', workers, ARGV[2]), period) then
    return {'wait'}
end
local worker =
    redis.call('ZRANGEBYSCORE', workers, '-inf', '(' .. string.format('%.0f', now - period), 'LIMIT', ARGV[7], 1)[1]
if not worker then return {'none'} end

local running = prefix .. 'running:' .. worker
local done = {pending = 0, suspects = 0, buried = 0, failed = 0}
local told = {}

-- A job that crashed its workers while it was leased alone has proven it; every other one may be a bystander.
local function recover(lease, entry)
    local queue, mark = string.match(lease, '^([%w_-]+)([:!])')
    local stop, submission, attempts, seen, crashes, alone = parse(entry)
    local status_key = prefix .. 'status:' .. submission
    crashes = crashes + 1
    if mark == '!' then alone = alone + 1 end
    local after = entitle(entry, stop, submission, attempts, seen, crashes, alone)
    local fate
    if not queue or alone >= tonumber(ARGV[10]) then
        fate = 'buried'
        local reason = queue and '["worker-crashed","it ended every worker that held it alone"]'
            or '["unknown-lease","the running hash held it under a name that is no lease"]'
        inter(KEYS[3], KEYS[4], '', queue or 'unknown', reason, after)
    elseif crashes >= tonumber(ARGV[9]) then
        fate = 'suspects'
        redis.call('LPUSH', prefix .. 'suspects:' .. queue, after)
    else
        fate = 'pending'
        redis.call('RPUSH', prefix .. 'pending:' .. queue, after)
    end
    redis.call('HDEL', running, lease)
    if submission ~= '-' then
        if fate == 'buried' and declare_dead(status_key, ARGV[12]) then
            told[#told + 1] = submission
        else
            redis.call('EXPIRE', status_key, ARGV[12])
        end
    end
    done[fate] = done[fate] + 1
    return 1
end

local entries = redis.call('HRANDFIELD', running, ARGV[6], 'WITHVALUES')
for i = 1, #entries, 2 do
    if guarded(recover, entries[i], entries[i + 1]) ~= 1 then done.failed = done.failed + 1 end
end
local gone = 0
if redis.call('HLEN', running) == 0 then gone = redis.call('ZREM', workers, worker) end
if #told > 0 then redis.call('PUBLISH', ARGV[11], table.concat(told, '\n')) end
return {'reaped', worker, done.pending, done.suspects, done.buried, done.failed, gone}
