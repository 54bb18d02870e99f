-- Names of queues: nonce, where to go on, what their keys are like. Where to go on, '0' at the end,
-- and keys. Keys that come or go meanwhile may be left out, or be there twice.
local found = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', 1000)
return {ARGV[1], found[1], unpack(found[2])}
