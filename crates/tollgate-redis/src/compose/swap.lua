-- Compare and swap: writes all the new states when every old one is still there, or none. KEYS: the
-- states. ARGV: the nonce; for each state the expected value (empty for none), the new value (empty
-- for none), for how many milliseconds, and for how many a later reset is remembered at least.
local lacks = refusal()
if lacks then
  return lacks
end
local marks = {}
for i, key in ipairs(KEYS) do
  if (redis.call('GET', key) or '') ~= ARGV[4 * i - 2] then
    return {ARGV[1], 0}
  end
  marks[i] = redis.call('GET', key .. '!reset') or '0:0'
end
for i, key in ipairs(KEYS) do
  if ARGV[4 * i - 1] == '' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, ARGV[4 * i - 1], 'PX', ARGV[4 * i])
  end
  local mark, left = key .. '!reset', tonumber(ARGV[4 * i + 1])
  if left > 0 and left > redis.call('PTTL', mark) then
    redis.call('SET', mark, marks[i], 'PX', left)
  end
end
return {ARGV[1], 1}
