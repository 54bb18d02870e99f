local call, nonce = redis.call, ARGV[1]
local out, meta, untils, clients = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local onces, tries = KEYS[6], KEYS[7]

-- The time: one time for the whole script.
local time
local function clock()
  time = time or redis.call('TIME')
  return $NOW
end

-- Does what may be the only write of a script, which has not looked at its rights then: where it is
-- refused, the error names all that lacks.
local function write(...)
  local is = redis.pcall(...)
  if type(is) == 'table' and is.err then
    error(refusal() or is)
  end
  return is
end
