#!lua flags=no-writes
-- Looks purchases up in their player's marks.
--
-- KEYS     meta, then for each call: player hash
-- ARGV     incarnation, then for each call: mark (digest of the purchase key)
-- RETURNS  for each call the position of its entry, or nil when it is not credited, or WRONGTYPE. A wiped Redis is
--          an error and not "not credited": that answer could turn a credit into a refusal
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
    return redis.error_reply('TELLERMETA the meta hash is missing or holds another incarnation')
end
local replies = {}
for i = 2, #KEYS do replies[i - 1] = redis.pcall('HGET', KEYS[i], ARGV[i]) end
return replies
