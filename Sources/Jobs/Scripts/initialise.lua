#!lua
-- Writes the meta hash of one partition, once.
-- KEYS     meta
-- ARGV     incarnation, partition count, bucket count, schema version, production ("1" or "0")
-- RETURNS  1 when written, 0 when a meta hash was already there (nothing is changed)
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call(
    'HSET', KEYS[1], 'incarnation', ARGV[1], 'partitions', ARGV[2], 'buckets', ARGV[3], 'schema', ARGV[4],
    'production', ARGV[5], 'createdAtMs', redis.call('TIME')[1] .. '000')
return 1
