#!lua flags=no-writes
-- Reads what jobs that wait for their retry say of themselves: of the first that are due, and of the last.
-- KEYS     meta, retry set
-- ARGV     incarnation, prefix of the status keys, how many of each at most
-- RETURNS  their statuses
local statuses, seen = {}, {}
local function look(first, last)
    for _, entry in ipairs(redis.call('ZRANGE', KEYS[2], first, last)) do
        local _, submission = parse(entry)
        local status = not seen[entry] and submission ~= '-' and redis.call('GET', ARGV[2] .. submission)
        if status then statuses[#statuses + 1] = status end
        seen[entry] = true
    end
end

look(0, ARGV[3] - 1)
look(-ARGV[3], -1)
return statuses
