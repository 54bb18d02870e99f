-- The server's policy when it is full: nonce. How much memory it may take, 0 for all there is, and
-- what it evicts then.
local info = redis.call('INFO', 'memory')
local most, policy = string.match(info, 'maxmemory:(%d+)'), string.match(info, 'maxmemory_policy:(%S+)')
return {ARGV[1], most or '0', policy or ''}
