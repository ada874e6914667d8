#!lua flags=no-writes
-- Reads wallets.
--
-- KEYS     meta, then for each call: player hash, entitlements hash
-- ARGV     incarnation, number of currencies, the currencies, then for each call: "1" to read entitlements, or "0"
-- RETURNS  for each call {{balance or nil, ...}, {entitlement, position, ...}}, or WRONGTYPE
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
    return redis.error_reply('TELLERMETA the meta hash is missing or holds another incarnation')
end
local count = tonumber(ARGV[2])
local currencies = {}
for i = 1, count do currencies[i] = ARGV[2 + i] end
local replies = {}
local argument = 3 + count
for key = 2, #KEYS, 2 do
    local balances, owned = redis.pcall('HMGET', KEYS[key], unpack(currencies)), {}
    if not balances.err and ARGV[argument] == '1' then owned = redis.pcall('HGETALL', KEYS[key + 1]) end
    replies[#replies + 1] = balances.err and balances or owned.err and owned or {balances, owned}
    argument = argument + 1
end
return replies
