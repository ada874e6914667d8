#!lua flags=allow-oom
-- Credits purchases: mark, balance and entry together or not at all. The only script that creates money.
--
-- KEYS     meta, then for each call: player hash, ledger list, entitlements hash
-- ARGV     incarnation, then for each call: mark (digest of the purchase key), entry that lacks "<ms>}" at its end,
--          currency, amount, others. A purchase that grants one amount and nothing else has others = ""; for any
--          other, currency and amount are "" and others holds words: "gems=550" (an amount), "+gold_pass" (a right)
-- RETURNS  for each call {1, position, balance...} when it was credited now, {0, position, entry, balance...} when
--          it had been before, balances in the order of the amounts; or an error: WRONGTYPE, TELLERBALANCE (beyond
--          2^53 - 1), TELLERDAMAGED (a balance or mark is not an integer). An error changes nothing and stops no other call
--
-- Redis does not roll a script back, so nothing may fail between the first write and the last. HMGET proves that the
-- player hash is one; RPUSH, the first write, either appends or, for a key of another type, changes nothing; HSET
-- then cannot fail, for lack of memory neither (allow-oom). Amounts are integers up to 2^53 - 1, which Lua's doubles
-- and Redis's "%.17g" hold exactly. Each byte of a string costs Lua's hash, so the entry is touched once.
local call, pcall = redis.call, redis.pcall
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
    return redis.error_reply('TELLERMETA the meta hash is missing or holds another incarnation')
end

local time = call('TIME')
local closing = time[1] .. string.sub(1000000 + time[2], 2, 4) .. '}'
local most = 9007199254740991
local too_large = {err = 'TELLERBALANCE the balance would pass 2^53 - 1'}
local damaged = {err = 'TELLERDAMAGED a balance or mark is not an integer'}

-- The new balance, or nil and the reply that says why there is none.
local function add(stored, amount)
    local balance = tonumber(stored or 0)
    -- Not equal to itself or to its floor: not a number, infinite, or a fraction.
    if not balance or balance % 1 ~= 0 then return nil, damaged end
    balance = balance + amount
    if balance > most then return nil, too_large end
    return balance
end

local function replay(ledger, fields)
    local position = tonumber(fields[1])
    if not position then return damaged end
    local reply = {0, position, pcall('LINDEX', ledger, position - 1)}
    if type(reply[3]) == 'table' then return reply[3] end
    for i = 2, #fields do reply[i + 2] = fields[i] or '0' end
    return reply
end

local function finish_others(player, ledger, owned, mark, entry, others)
    local names, amounts, rights = {mark}, {}, {}
    for word in string.gmatch(others, '%S+') do
        local currency, amount = string.match(word, '^([^=+]+)=(%d+)$')
        if currency then
            names[#names + 1], amounts[#names] = currency, tonumber(amount)
        else
            rights[#rights + 1] = string.sub(word, 2)
        end
    end
    local fields = pcall('HMGET', player, unpack(names))
    if fields.err then return fields end
    -- HMGET's table may hold false, but its length is that of the names.
    if fields[1] then return replay(ledger, fields) end
    local balances, changes = {}, {}
    for i = 2, #names do
        local balance, why = add(fields[i], amounts[i - 1])
        if not balance then return why end
        balances[i - 1] = balance
        changes[#changes + 1], changes[#changes + 2] = names[i], balance
    end
    if #rights > 0 then
        local seen = pcall('HEXISTS', owned, rights[1])
        if type(seen) == 'table' then return seen end
    end
    local position = pcall('RPUSH', ledger, entry .. closing)
    if type(position) == 'table' then return position end
    call('HSET', player, mark, position, unpack(changes))
    for i = 1, #rights do call('HSETNX', owned, rights[i], position) end
    return {1, position, unpack(balances)}
end

local function finish(player, ledger, mark, entry, currency, amount)
    local fields = pcall('HMGET', player, mark, currency)
    if fields.err then return fields end
    if fields[1] then return replay(ledger, fields) end
    local balance, why = add(fields[2], amount)
    if not balance then return why end
    local position = pcall('RPUSH', ledger, entry .. closing)
    if type(position) == 'table' then return position end
    call('HSET', player, mark, position, currency, balance)
    return {1, position, balance}
end

local replies = {}
local argument = 2
for key = 2, #KEYS, 3 do
    local mark, entry, others = ARGV[argument], ARGV[argument + 1], ARGV[argument + 4]
    if others == '' then
        replies[#replies + 1] =
            finish(KEYS[key], KEYS[key + 1], mark, entry, ARGV[argument + 2], ARGV[argument + 3])
    else
        replies[#replies + 1] = finish_others(KEYS[key], KEYS[key + 1], KEYS[key + 2], mark, entry, others)
    end
    argument = argument + 5
end
return replies
