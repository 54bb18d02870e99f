-- A stream with a bound, as an article has it: looks at the length, then adds or refuses.
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('XADD', KEYS[1], '*', ARGV[2], ARGV[3])
return 1
