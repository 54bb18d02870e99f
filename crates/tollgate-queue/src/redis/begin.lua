local call, nonce = redis.call, ARGV[1]
local out, meta, untils, clients = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local onces, tries = KEYS[6], KEYS[7]

-- What time it is: one time for all that a script does.
local time
local function clock()
  time = time or redis.call('TIME')
  return $NOW
end
