-- KEYS: the state, its reset, and a log for each limit. ARGV: the nonce, and how long what was
-- charged under these limits could be given back at most, in microseconds.
local lacks = refusal()
if lacks then
  return lacks
end
-- The mark lives as long as every earlier charge could be given back: those in the state as long as
-- it would have lived, and those before that as long as the old mark would.
local found, longest = 0, lifetime(tonumber(ARGV[2]))
for i, key in ipairs(KEYS) do
  longest = math.max(longest, redis.call('PTTL', key))
  if i ~= 2 then
    found = found + redis.call('DEL', key)
  end
end
-- Records of holds that were settled, and of names that are over, outlive the reset.
for _, name in ipairs({'@', '@sums', '@line', '@ends'}) do
  found = found + redis.call('DEL', KEYS[1] .. name)
end
for _, name in ipairs({'?', '?-'}) do
  redis.call('DEL', KEYS[1] .. name)
end
if found == 0 then
  return {ARGV[1], 0}
end
redis.call('SET', KEYS[2], string.format('%.0f:%s', now, ARGV[1]), 'PX', longest)
return {ARGV[1], 1}
