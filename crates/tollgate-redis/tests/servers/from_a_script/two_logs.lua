-- A resource and a consumer: a sorted set for each, scored by the second, of microseconds.
local time = TIME()
local oldest = time[1] - ARGV[1]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, oldest)
if redis.call('ZCARD', KEYS[1]) == tonumber(ARGV[2]) then
  return 0
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, oldest)
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then
  return 0
end
for _, key in ipairs(KEYS) do
  redis.call('ZADD', key, time[1], time[2])
end
return 1
