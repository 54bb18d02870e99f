-- Compare and swap: writes all the new states when every old one is still there, or none.
-- KEYS: the states. ARGV: the nonce; for each state what is expected (empty for none), what shall
-- be there instead (empty for none), and for how many milliseconds.
for i, key in ipairs(KEYS) do
  if (redis.call('GET', key) or '') ~= ARGV[3 * i - 1] then
    return {ARGV[1], 0}
  end
end
for i, key in ipairs(KEYS) do
  if ARGV[3 * i] == '' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, ARGV[3 * i], 'PX', ARGV[3 * i + 1])
  end
end
return {ARGV[1], 1}
