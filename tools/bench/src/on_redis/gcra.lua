-- The smallest script that counts as gcra does: one TIME, one GET, one SET, three integers back
-- (1 or 0, what remains, how long to wait). A cost of 1 in whole microseconds, with the numbers
-- written in; nothing that it is given or that it reads is looked at.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local tat = tonumber(redis.call('GET', KEYS[1])) or now
if tat < now then
  tat = now
end
tat = tat + $UNIT
local free = $FULL + now - tat
if free < 0 then
  return {0, 0, -free}
end
redis.call('SET', KEYS[1], tat, 'PX', math.ceil((tat - now) / 1000))
return {1, math.floor(free / $UNIT), 0}
