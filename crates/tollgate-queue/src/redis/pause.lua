-- Pauses the queue, or lets it go on: nonce, 1 or 0. Whether there is one.
local was = call('HMGET', meta, 'form', 'offering', 'working')
local other = other_form(was[1])
if other then
  return other
end
if not (was[2] or was[3]) then
  return {nonce, 0}
end
if ARGV[2] == '1' then
  call('HSET', meta, 'paused', '1')
else
  call('HDEL', meta, 'paused')
  ring()
end
return {nonce, 1}
