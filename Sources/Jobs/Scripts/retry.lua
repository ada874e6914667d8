#!lua flags=allow-oom
-- Puts leased jobs aside until they are due; a batch.
-- KEYS     meta, running of the worker, pulse, then for each call: retry set, status
-- ARGV     incarnation, status seconds, channel, then for each call: lease, submission or "-" (written down for a bare
--          job), delay ms, status JSON (empty: none), "1" to publish that status
-- RETURNS  for each call 1, or 0 when the lease was not the worker's any more (nothing is changed)
local running, seconds = KEYS[2], ARGV[2]
local steady = now + (redis.call('HGET', KEYS[3], 'setBackMs') or 0)
local told = {}

local function retry(retries, status_key, lease, known, delay, status, publishes)
    local entry = redis.call('HGET', running, lease)
    if not entry then return 0 end
    local credited = status ~= '' and is_credited(status_key)
    local stop, submission, attempts, seen, crashes, alone = parse(entry)
    if submission == '-' then submission = known end
    -- It ran alone and its worker lived: no suspect any more. What it crashed alone stays on its account.
    if string.find(lease, '!', 1, true) then crashes = 0 end
    local due = steady + delay
    local later = entitle(entry, stop, submission, attempts + 1, seen, crashes, alone)
    -- A set holds one of two equal members; two equal jobs are still two jobs.
    if redis.call('ZADD', retries, 'NX', due, later) == 0 then
        later = entitle(entry, stop, submission, attempts + 1, seen, crashes, alone, ' ' .. time[1] .. time[2] .. lease)
        redis.call('ZADD', retries, due, later)
    end
    redis.call('HDEL', running, lease)
    -- Longer by the delay: enqueue.lua reads from it that this job is alive until it is due.
    if status ~= '' and not credited then
        redis.call('SET', status_key, status, 'PX', string.format('%.0f', seconds * 1000 + delay))
        if publishes == '1' then told[#told + 1] = known end
    end
    return 1
end

local answers = {}
local argument = 4
for key = 4, #KEYS, 2 do
    answers[#answers + 1] = guarded(
        retry, KEYS[key], KEYS[key + 1], ARGV[argument], ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3],
        ARGV[argument + 4])
    argument = argument + 5
end
if #told > 0 then redis.call('PUBLISH', ARGV[3], table.concat(told, '\n')) end
return answers
