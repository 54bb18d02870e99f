-- One sorted set, scored by seconds and microseconds that are joined as texts.
local time = TIME()
local now = tonumber(time[1] .. time[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[1])
local count, limit = redis.call('ZCARD', KEYS[1]), tonumber(ARGV[2])
if count == limit then
  return 0
end
if count < limit then
  redis.call('ZADD', KEYS[1], now, time[1] .. ':' .. time[2])
end
return 1
