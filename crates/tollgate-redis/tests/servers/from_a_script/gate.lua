-- A gate is shut for as long as its key lives.
if redis.call('TTL', KEYS[1]) > 0 then
  return 0
end
redis.call('SET', KEYS[1], 'shut', 'PX', ARGV[1])
return 1
