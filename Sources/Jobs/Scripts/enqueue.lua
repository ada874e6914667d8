#!lua
-- Pushes submissions, each at most once while one is alive; a batch. No allow-oom: a full Redis refuses new work.
-- KEYS     meta, then for each call: status, pending list
-- ARGV     incarnation, alive ms, look-again ms, status seconds, then for each call: list limit, status JSON
--          ("pending"), entry (header and payload: joining them here would cost one more copy of a receipt)
-- RETURNS  for each call now in ms (enqueued), 0 (the list is full) or {why, status}; why: "credited"; "pending"
--          (alive, nothing pushed); "recent" (looked at a moment ago)
local alive, again, seconds = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local lengths = {}

local function enqueue(status_key, list, limit, pending, entry)
    local status = redis.call('GET', status_key)
    if status then
        local state = string.match(status, '^{"state":"([%a-]+)"')
        if state == 'credited' then return {'credited', status} end
        -- Every write of a status sets its time to live anew, so what is left of it tells how old it is. A job that
        -- waits in retry has a longer one (retry.lua) and counts as alive until it is due. Any other longer one is from
        -- before Redis's clock was set back: nobody knows how old it is.
        local age = seconds * 1000 - redis.call('PTTL', status_key)
        if state == 'pending' then
            if age < alive then return {'pending', status} end
        elseif age >= 0 and age < again then
            return {'recent', status}
        end
    end
    local length = lengths[list] or redis.call('LLEN', list)
    if length >= tonumber(limit) then return 0 end
    lengths[list] = redis.call('LPUSH', list, entry)
    redis.call('SET', status_key, pending, 'EX', seconds)
    return now
end

local answers = {}
local argument = 5
for key = 2, #KEYS, 2 do
    answers[#answers + 1] =
        guarded(enqueue, KEYS[key], KEYS[key + 1], ARGV[argument], ARGV[argument + 1], ARGV[argument + 2])
    argument = argument + 3
end
return answers
