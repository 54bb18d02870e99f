-- KEYS: the notices, `UNTIL:TEXT` by name, and their version by no name.
-- ARGV: the nonce, and the version that was seen, or nothing.
local version = redis.call('HGET', KEYS[1], '') or '0'
if version == ARGV[2] then
  return {ARGV[1]}
end
return {ARGV[1], now, version, redis.call('HGETALL', KEYS[1])}
