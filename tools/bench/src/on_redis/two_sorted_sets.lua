-- The cost of a check over two sorted sets: the commands of a published pattern (a shared resource
-- and each of its consumers, every event a member), in our words. KEYS: the resource, the consumer.
-- ARGV: seconds of the window, the units of each.
local second = redis.call('TIME')[1]
local micros = redis.call('TIME')[2]
local oldest = second - ARGV[1]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '0', oldest)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '0', oldest)
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], second, micros)
redis.call('ZADD', KEYS[2], second, micros)
return 1
