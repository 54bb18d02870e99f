-- KEYS: the state, its reset, and a log for each limit. ARGV: the nonce, and how long what was
-- charged under these limits could be given back at most, in microseconds.
local lacks = refusal()
if lacks then
  return lacks
end
-- The mark lies as long as all that was charged before could be given back: what the state counts
-- as long as it would have lain, and what was charged before that as long as the old mark would.
local found, longest = 0, lifetime(tonumber(ARGV[2]))
for i, key in ipairs(KEYS) do
  longest = math.max(longest, redis.call('PTTL', key))
  if i ~= 2 then
    found = found + redis.call('DEL', key)
  end
end
-- What is remembered of holds that were settled, and of names that are over, outlives the reset.
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
