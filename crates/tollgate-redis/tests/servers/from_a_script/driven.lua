-- Runs a pattern at a given time. Time does not pass within a script, so its keys have exactly the
-- lifetimes that they have left at that time. Between two calls they live for ever.
local now = tonumber(ARGV[1])
local function TIME()
  local seconds = math.floor(now / 1000000)
  return {string.format('%.0f', seconds), string.format('%.0f', now - seconds * 1000000)}
end
local rest = {}
for i, key in ipairs(KEYS) do
  local left = tonumber(ARGV[1 + i])
  if left == 0 then
    redis.call('DEL', key)
  elseif left > 0 then
    redis.call('PEXPIRE', key, left)
  end
end
for i = 2 + #KEYS, #ARGV do
  rest[#rest + 1] = ARGV[i]
end
local answer = {pattern(KEYS, rest, TIME)}
for i, key in ipairs(KEYS) do
  answer[1 + i] = redis.call('PTTL', key)
  redis.call('PERSIST', key)
end
return answer
