-- KEYS: the state, and a log for each limit. ARGV: the nonce.
local reply = {ARGV[1], now}
for i, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'list' then
    reply[i + 2] = redis.call('LRANGE', key, 0, -1)
  else
    reply[i + 2] = redis.call('GET', key)
  end
end
return reply
