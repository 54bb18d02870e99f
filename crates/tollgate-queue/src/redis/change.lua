-- Changes how the queue is offered to and worked on: nonce, settings or '', 1 for a bound of all,
-- settings or ''.
if ARGV[2] ~= '' then
  redis.call('HSET', meta, 'offering', ARGV[2], 'all', ARGV[3])
end
if ARGV[4] ~= '' then
  redis.call('HSET', meta, 'working', ARGV[4])
end
return {nonce}
