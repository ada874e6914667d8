#!lua flags=allow-oom
-- Moves leased jobs to the dead letters, with their reasons; a batch.
-- KEYS     meta, running of the worker, dead, dead index, then for each call: status
-- ARGV     incarnation, status seconds, channel, then for each call: lease, submission or "-", how many bytes to keep
--          of a malformed job (empty: it is not, all of them), reasons (a JSON array), status JSON (empty: "pending"
--          becomes "dead", for whoever knows the submission)
-- RETURNS  for each call the id among the dead, or "" when the lease was not the worker's any more (nothing changed)
local running, seconds = KEYS[2], ARGV[2]
local told = {}

local function bury(status_key, lease, submission, keep, reasons, status)
    local entry = redis.call('HGET', running, lease)
    if not entry then return '' end
    -- Typed reads first: nothing after the HDEL may fail, for Redis does not roll a script back.
    local credited = is_credited(status_key)
    local id = inter(KEYS[3], KEYS[4], keep, string.match(lease, '^[%w_-]*'), reasons, entry, submission)
    redis.call('HDEL', running, lease)
    if status == '' and declare_dead(status_key, seconds) then
        told[#told + 1] = submission
    elseif status ~= '' and not credited then
        redis.call('SET', status_key, status, 'EX', seconds)
        told[#told + 1] = submission
    end
    return id
end

local answers = {}
local argument = 4
for key = 5, #KEYS do
    answers[#answers + 1] = guarded(
        bury, KEYS[key], ARGV[argument], ARGV[argument + 1], ARGV[argument + 2], ARGV[argument + 3],
        ARGV[argument + 4])
    argument = argument + 5
end
if #told > 0 then redis.call('PUBLISH', ARGV[3], table.concat(told, '\n')) end
return answers
