#!lua flags=allow-oom
-- Ends leases with their final status, queues what follows from them, and wakes who waits; a batch.
-- KEYS     meta, running of the worker, then for each call: status
-- ARGV     incarnation, status seconds, channel, prefix of the pending lists, then for each call: lease, submission,
--          status JSON (empty: none), follow-ups ("<queue> <bytes>\n<payload>" repeated, empty: none)
-- RETURNS  for each call 1, or 0 when the lease was not the worker's any more. Then "credited" is still written,
--          because it is a fact and not an opinion of the lease holder; any other status is not, and it never
--          replaces "credited". Follow-ups are queued by whoever holds the lease or first says "credited".
local running, seconds, prefix = KEYS[2], ARGV[2], ARGV[4]
local told = {}

local function each(ups, visit)
    local at = 1
    while at <= #ups do
        local _, stop, queue, bytes = string.find(ups, '^(%S+) (%d+)\n', at)
        visit(prefix .. queue, string.sub(ups, stop + 1, stop + bytes))
        at = stop + bytes + 1
    end
end

local function check(ups)
    each(ups, function(list) redis.call('LLEN', list) end)
end

local function follow(ups)
    each(ups, function(list, payload) redis.call('LPUSH', list, entitle(payload, 0, '-', 0, now, 0, 0)) end)
end

local function settle(status_key, lease, submission, status, ups)
    local credits = string.sub(status, 1, 19) == '{"state":"credited"'
    -- Typed reads first: nothing after the HDEL may fail, for Redis does not roll a script back.
    local known = (ups ~= '' or not credits and status ~= '') and is_credited(status_key)
    if ups ~= '' then check(ups) end
    local mine = redis.call('HDEL', running, lease)
    if ups ~= '' and (mine == 1 or credits and not known) then follow(ups) end
    if status ~= '' and (credits or mine == 1 and not known) then
        redis.call('SET', status_key, status, 'EX', seconds)
        told[#told + 1] = submission
    end
    return mine
end

local answers = {}
local argument = 5
for key = 3, #KEYS do
    answers[#answers + 1] = guarded(
        settle, KEYS[key], ARGV[argument], ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3])
    argument = argument + 4
end
if #told > 0 then redis.call('PUBLISH', ARGV[3], table.concat(told, '\n')) end
return answers
