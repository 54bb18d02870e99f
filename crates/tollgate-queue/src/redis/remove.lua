-- Removes the queue with all that is in it: nonce. Whether there was one.
local was = call('HMGET', meta, 'form', 'offering', 'working')
local other = other_form(was[1])
if other then
  return other
end
call('UNLINK', unpack(KEYS))
return {nonce, (was[2] or was[3]) and 1 or 0}
