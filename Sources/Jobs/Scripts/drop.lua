#!lua flags=allow-oom
-- Forgets a dead letter, for good. The status of its submission stays: whoever sends the receipt again is served.
-- KEYS     meta, dead, dead index
-- ARGV     incarnation, id among the dead, "force" to drop any, not only a malformed one without a submission
-- RETURNS  {"dropped", what it was: its line of JSON, without the job ("" when there was an id and no record)};
--          {"kept", ""} (it may be a purchase, or its duty: nothing changed); {"missing", ""}
local record = redis.call('HGET', KEYS[2], ARGV[2])
local line = record and string.match(record, '^[^\n]*') or ''
local whole, kept = string.match(line, '"entryBytes":(%d+),"keptBytes":(%d+)')
-- What has a submission was understood by whoever gave it one, such as a newer version.
local is_known = not string.find(line, '"submission":"-"', 1, true)
local is_malformed = not is_known and (whole ~= kept or string.find(line, '"malformed":true', 1, true))
if record and not is_malformed and ARGV[3] ~= 'force' then return {'kept', ''} end
local known = redis.call('ZREM', KEYS[3], ARGV[2]) + redis.call('HDEL', KEYS[2], ARGV[2])
if known == 0 then return {'missing', ''} end
return {'dropped', line}
