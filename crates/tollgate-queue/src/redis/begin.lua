local call, nonce = redis.call, ARGV[1]
local $JOBS, out, meta, untils, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local onces, tries = KEYS[6], KEYS[7]

-- Goes on with the queue of the three keys after these.
local function turn_to(keys)
  $JOBS, out, meta = KEYS[keys + 1], KEYS[keys + 2], KEYS[keys + 3]
end

-- The time: one time for the whole script.
local time
local function clock()
  if not time then
    local is = redis.call('TIME')
    time = $NOW
  end
  return time
end

-- How many wait; with those that are out, when `all`.
local function depth(all)
  return $DEPTH
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
