#!lua flags=allow-oom
-- Gives leases back unfinished: to the front of the line, as they were; a batch.
-- KEYS     meta, running of the worker, then for each call: the list (pending, or suspects for one leased alone)
-- ARGV     incarnation, then for each call: lease
-- RETURNS  for each call 1, or 0 when the lease was not the worker's any more
local function release(list, lease)
    local entry = redis.call('HGET', KEYS[2], lease)
    if not entry then return 0 end
    redis.call('RPUSH', list, entry)
    redis.call('HDEL', KEYS[2], lease)
    return 1
end

local answers = {}
for key = 3, #KEYS do
    answers[#answers + 1] = guarded(release, KEYS[key], ARGV[key - 1])
end
return answers
