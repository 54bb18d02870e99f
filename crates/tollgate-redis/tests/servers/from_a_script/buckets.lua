-- A hash of counts: for each limit of the JSON one for the window, and one for each sub-bucket.
local limits, now = cjson.decode(ARGV[1]), tonumber(ARGV[2])
local cost, longest = tonumber(ARGV[3]), 0
local windows = {}
for i, limit in ipairs(limits) do
  local length = limit[1]
  local step = math.min(limit[3] or length, length)
  local count, name = math.ceil(length / step), length .. ':' .. step .. ':'
  local bucket = math.floor(now / step)
  local first = bucket - count + 1
  windows[i] = {name = name, bucket = bucket, first = first}
  longest = math.max(longest, length)
  local oldest = tonumber(redis.call('HGET', KEYS[1], name .. 'o') or first)
  if oldest > now then
    return 0
  end
  local gone = 0
  for old = oldest, math.min(first, oldest + count) - 1 do
    gone = gone + (redis.call('HGET', KEYS[1], name .. old) or 0)
    redis.call('HDEL', KEYS[1], name .. old)
  end
  if redis.call('HINCRBY', KEYS[1], name, 0 - gone) + cost > limit[2] then
    return 0
  end
end
for _, window in ipairs(windows) do
  redis.call('HSET', KEYS[1], window.name .. 'o', window.first)
  redis.call('HINCRBY', KEYS[1], window.name, cost)
  redis.call('HINCRBY', KEYS[1], window.name .. window.bucket, cost)
end
redis.call('EXPIRE', KEYS[1], longest)
return 1
