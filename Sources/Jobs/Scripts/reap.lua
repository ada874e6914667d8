#!lua flags=allow-oom
-- Takes up to n jobs from one worker whose heartbeat stopped, and its name once it holds nothing.
-- A sweeper must have seen its own heartbeats go through for a whole lease period, the last of them a moment ago:
-- after an outage of Redis everybody looks dead, and a sweep sent before the outage may run after it.
-- KEYS     meta, workers, dead, dead index
-- ARGV     incarnation, worker that sweeps, lease ms, its last heartbeat ms, ms since when they succeed, max age ms of
--          the last one, n, how many stale workers to pass over, key prefix, crashes that make a suspect, crashes
--          alone that bury, channel, status seconds
-- RETURNS  {"wait"} (too early to judge), {"none"}, or {"reaped", worker, to pending, to suspects, buried, failed,
--          1 when the worker's name is gone}
local workers, period, prefix = KEYS[2], tonumber(ARGV[3]), ARGV[9]
if now - ARGV[4] > tonumber(ARGV[6]) or now - ARGV[5] < period then return {'wait'} end
local own = redis.call('ZSCORE', workers, ARGV[2])
if not own or now - own > period then return {'wait'} end
local worker =
    redis.call('ZRANGEBYSCORE', workers, '-inf', '(' .. string.format('%.0f', now - period), 'LIMIT', ARGV[8], 1)[1]
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
    if not queue or alone >= tonumber(ARGV[11]) then
        fate = 'buried'
        local reason = queue and '["worker-crashed","it ended every worker that held it alone"]'
            or '["unknown-lease","the running hash held it under a name that is no lease"]'
        inter(KEYS[3], KEYS[4], #after, queue or 'unknown', reason, after)
    elseif crashes >= tonumber(ARGV[10]) then
        fate = 'suspects'
        redis.call('LPUSH', prefix .. 'suspects:' .. queue, after)
    else
        fate = 'pending'
        redis.call('RPUSH', prefix .. 'pending:' .. queue, after)
    end
    redis.call('HDEL', running, lease)
    if submission ~= '-' then
        if fate == 'buried' and redis.call('GETRANGE', status_key, 0, 17) == '{"state":"pending"' then
            local status = redis.call('GET', status_key)
            redis.call('SET', status_key, '{"state":"dead"' .. string.sub(status, 19), 'EX', ARGV[13])
            told[#told + 1] = submission
        else
            redis.call('EXPIRE', status_key, ARGV[13])
        end
    end
    done[fate] = done[fate] + 1
    return 1
end

local entries = redis.call('HRANDFIELD', running, ARGV[7], 'WITHVALUES')
for i = 1, #entries, 2 do
    if guarded(recover, entries[i], entries[i + 1]) ~= 1 then done.failed = done.failed + 1 end
end
local gone = 0
if redis.call('HLEN', running) == 0 then gone = redis.call('ZREM', workers, worker) end
if #told > 0 then redis.call('PUBLISH', ARGV[12], table.concat(told, '\n')) end
return {'reaped', worker, done.pending, done.suspects, done.buried, done.failed, gone}
