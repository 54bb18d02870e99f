-- The cost of a bucket of tokens in two strings: the commands of a published pattern (the remaining
-- tokens in one, since when in the other), in our words. KEYS: what is left, since when. ARGV: the
-- capacity, the milliseconds that fill it, the cost.
local capacity, interval, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.replicate_commands()
local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
local left, since, lost = redis.call('GET', KEYS[1]), now - interval, false
if left then
  since = redis.call('GET', KEYS[2])
  if not since then
    since, lost = now - left / capacity * interval, true
  end
end
local back = math.max((now - since) / interval * capacity, 0)
local have = math.min((left or 0) + back, capacity)
if have < cost then
  return {0, have}
end
have = have - cost
redis.call('PSETEX', KEYS[1], interval, have)
if back > 0 or lost then
  redis.call('PSETEX', KEYS[2], interval, now)
else
  redis.call('PEXPIRE', KEYS[2], interval)
end
return {1, have}
