#!lua flags=allow-oom
-- Writes the submission of a job into its header: of a bare one, or of one that came under another name.
-- KEYS     meta, running of the worker
-- ARGV     incarnation, lease, submission
-- RETURNS  1, or 0 when the lease was not the worker's any more
local entry = redis.call('HGET', KEYS[2], ARGV[2])
if not entry then return 0 end
local stop, submission, attempts, seen, crashes, alone = parse(entry)
if submission ~= ARGV[3] then
    redis.call('HSET', KEYS[2], ARGV[2], entitle(entry, stop, ARGV[3], attempts, seen, crashes, alone))
end
return 1
