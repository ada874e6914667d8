#!lua
-- Gives a dead letter another life: from dead to the end of the line, as if it had just been seen. No allow-oom: it
-- adds work.
-- KEYS     meta, dead, dead index, pending list, status
-- ARGV     incarnation, id among the dead, queue, submission, status seconds
-- RETURNS  "replayed"; "missing"; "truncated" (only the beginning was kept); "changed" (not the record of that queue
--          and submission)
local record = redis.call('HGET', KEYS[2], ARGV[2])
if not record then return 'missing' end
local feed = string.find(record, '\n', 1, true)
local line, entry = string.sub(record, 1, feed - 1), string.sub(record, feed + 1)
local queue, submission = string.match(line, '"queue":"([%w_-]*)","submission":"([%w_.:-]*)"')
local whole, kept = string.match(line, '"entryBytes":(%d+),"keptBytes":(%d+)')
if queue ~= ARGV[3] or submission ~= ARGV[4] then return 'changed' end
if whole ~= kept then return 'truncated' end
-- Who may push and not remove would push again with each try.
if not redis.acl_check_cmd('HDEL', KEYS[2], ARGV[2]) then
    return redis.error_reply('NOPERM this user may not remove dead letters')
end
redis.call('ZCARD', KEYS[3])
local status = redis.call('GET', KEYS[5])
local stop = parse(entry)
redis.call('LPUSH', KEYS[4], entitle(entry, stop, submission, 0, now, 0, 0))
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
if status and string.sub(status, 1, 15) == '{"state":"dead"' then
    redis.call('SET', KEYS[5], '{"state":"pending"' .. string.sub(status, 16), 'EX', ARGV[5])
end
return 'replayed'
