#!lua flags=no-writes
-- Reads one page of a ledger.
--
-- KEYS     meta, ledger list
-- ARGV     incarnation, position before which the page ends (0: from the newest), entries at most
-- RETURNS  {position of the first entry, {entry, ...} oldest first}
-- Entries are only ever appended, so a position names the same entry for ever and pages never shift.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
    return redis.error_reply('TELLERMETA the meta hash is missing or holds another incarnation')
end
local length = redis.call('LLEN', KEYS[2])
local before = tonumber(ARGV[2])
if before < 1 or before > length then before = length + 1 end
local first = math.max(before - tonumber(ARGV[3]), 1)
if first >= before then return {first, {}} end
return {first, redis.call('LRANGE', KEYS[2], first - 1, before - 2)}
