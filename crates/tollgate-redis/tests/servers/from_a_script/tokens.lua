-- Tokens in one key, and the millisecond of their last change in another.
local time = TIME()
local now = math.floor(time[1] * 1000 + time[2] / 1000)
local limit, interval, batch = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left, since = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if not left then
  left, since = 0, now - interval
end
since = since or now - left / limit * interval
local refill = math.max((now - since) / interval * limit, 0)
local tokens = math.min(left + refill, limit)
if tokens < batch then
  return 0
end
redis.call('PSETEX', KEYS[1], interval, tokens - batch)
if refill > 0 or not redis.call('GET', KEYS[2]) then
  redis.call('PSETEX', KEYS[2], interval, now)
else
  redis.call('PEXPIRE', KEYS[2], interval)
end
return 1
