local call, nonce = redis.call, ARGV[1]

-- What time it is: one time for all that a script does.
local time
local function clock()
  time = time or redis.call('TIME')
  return $NOW
end
