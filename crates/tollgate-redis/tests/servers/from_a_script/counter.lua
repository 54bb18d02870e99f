-- A counter that lives from its first request on.
if redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[2]) then
  return 1
end
if tonumber(redis.call('GET', KEYS[1])) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('INCR', KEYS[1])
return 1
