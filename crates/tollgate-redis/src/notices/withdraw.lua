-- KEYS: the notices. ARGV: the nonce, and the name.
local lacks = refusal()
if lacks then
  return lacks
end
local value = redis.call('HGET', KEYS[1], ARGV[2])
if not value then
  return {ARGV[1], 0}
end
local version = tonumber(redis.call('HGET', KEYS[1], '') or '0')
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], '', string.format('%.0f', math.max(version + 1, now)))
local ends = tonumber(string.match(value, '^(%d+):') or '0')
return {ARGV[1], ends > now and 1 or 0}
