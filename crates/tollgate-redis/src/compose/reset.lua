-- KEYS: the state, its reset, and a log for each limit. ARGV: the nonce, and how long what was
-- charged under these limits could be given back at most, in microseconds.
local found, longest = 0, lifetime(tonumber(ARGV[2]))
for i, key in ipairs(KEYS) do
  if i ~= 2 then
    longest = math.max(longest, redis.call('PTTL', key))
    found = found + redis.call('DEL', key)
  end
end
if found == 0 then
  return {ARGV[1], 0}
end
redis.call('SET', KEYS[2], string.format('%.0f:%s', now, ARGV[1]), 'PX', longest)
return {ARGV[1], 1}
