-- Put by JobScripts behind the shebang line of every script but initialise.lua.
-- KEYS[1] is always the meta hash, ARGV[1] the incarnation the caller was started for: a wiped, restored or
-- foreign Redis must stop everything, because its empty marks would credit the world a second time.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
    return redis.error_reply('TELLERMETA the meta hash is missing or holds another incarnation')
end

-- Milliseconds by the server's clock: the one clock that all workers share. Frozen while a script runs.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- An entry is "T1 <submission or -> <attempts> <first seen ms> <crashes> <crashes while alone>[ <salt>]\n<payload>",
-- or a bare payload that another program pushed. Returns where the header ends (0: bare) and its fields.
local function parse(entry)
    local _, stop, submission, attempts, seen, crashes, alone =
        string.find(entry, '^T1 ([%w_.:-]+) (%d+) (%d+) (%d+) (%d+)[^\n]*\n')
    -- Longer numbers are not exact here, and no header of Teller's has them.
    if stop and #attempts < 16 and #seen < 16 and #crashes < 16 and #alone < 16 then
        return stop, submission, attempts + 0, seen + 0, crashes + 0, alone + 0
    end
    return 0, '-', 0, now, 0, 0
end

-- The entry again, under a new header. %.0f: tostring would write 1e+15.
local function entitle(entry, stop, submission, attempts, seen, crashes, alone, salt)
    return string.format('T1 %s %.0f %.0f %.0f %.0f%s\n', submission, attempts, seen, crashes, alone, salt or '')
        .. string.sub(entry, stop + 1)
end

-- A status is JSON whose first member is "state".
local function is_credited(status_key)
    return redis.call('GETRANGE', status_key, 0, 18) == '{"state":"credited"'
end

-- Nobody will work on this job again by itself: whoever asks hears "dead" instead of "pending", the rest as it was.
-- Returns whether there was such a status.
local function declare_dead(status_key, seconds)
    if redis.call('GETRANGE', status_key, 0, 17) ~= '{"state":"pending"' then return false end
    local status = redis.call('GET', status_key)
    redis.call('SET', status_key, '{"state":"dead"' .. string.sub(status, 19), 'EX', seconds)
    return true
end

-- Puts an entry among the dead: HASH id -> one line of JSON, a line feed, the entry itself, of a malformed one only
-- `keep_bytes` ('' for others). The typed reads come first because Redis does not roll a script back.
local function inter(dead, index, keep_bytes, queue, reasons, entry, known)
    redis.call('ZCARD', index)
    local number = 0
    local id
    repeat
        number = number + 1
        id = string.format('%s%06d-%d', time[1], time[2], number)
    until redis.call('HEXISTS', dead, id) == 0
    local kept = keep_bytes == '' and entry or string.sub(entry, 1, keep_bytes)
    local _, submission, attempts, seen, crashes, alone = parse(entry)
    if submission == '-' then submission = known or '-' end
    local record = string.format(
        '{"id":"%s","queue":"%s","submission":"%s","buriedAtMs":%.0f,"firstSeenMs":%.0f,"attempts":%.0f,'
            .. '"crashes":%.0f,"aloneCrashes":%.0f,"entryBytes":%d,"keptBytes":%d,"malformed":%s,"sha1":"%s",'
            .. '"reasons":',
        id, queue, submission, now, seen, attempts, crashes, alone, #entry, #kept,
        tostring(keep_bytes ~= ''), redis.sha1hex(entry))
    redis.call('HSET', dead, id, record .. reasons .. '}\n' .. kept)
    redis.call('ZADD', index, now, id)
    return id
end

-- Runs one call of a batch: its failure is its own answer and does not stop the others.
local function guarded(body, ...)
    local ok, answer = pcall(body, ...)
    if ok then return answer end
    if type(answer) == 'table' then return answer end
    return redis.error_reply('ERR ' .. tostring(answer))
end
