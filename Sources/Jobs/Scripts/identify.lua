#!lua flags=allow-oom
-- Gives leased bare jobs their submission and their first status; a batch.
-- KEYS     meta, running of the worker, then for each call: status
-- ARGV     incarnation, status seconds, then for each call: lease, submission, status JSON ("pending")
-- RETURNS  for each call 1, or 0 when the lease is not the worker's any more (nothing is changed)
local running, seconds = KEYS[2], ARGV[2]

local function identify(status_key, lease, submission, status)
    local entry = redis.call('HGET', running, lease)
    if not entry then return 0 end
    local stop, _, attempts, seen, crashes, alone = parse(entry)
    local credited = is_credited(status_key)
    redis.call('HSET', running, lease, entitle(entry, stop, submission, attempts, seen, crashes, alone))
    if not credited then redis.call('SET', status_key, status, 'EX', seconds) end
    return 1
end

local answers = {}
local argument = 3
for key = 3, #KEYS do
    answers[#answers + 1] = guarded(identify, KEYS[key], ARGV[argument], ARGV[argument + 1], ARGV[argument + 2])
    argument = argument + 3
end
return answers
