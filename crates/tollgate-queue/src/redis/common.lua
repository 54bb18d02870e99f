-- What the scripts of a queue share. All keys have one hash tag:
-- jobs     a stream with the jobs that wait and those that are out; its group `workers` has
--          delivered those that are out
-- out      of each that is out, when it comes back, in microseconds
-- tries    of each that is out: how often it was delivered, `h` while it is held, why it failed
-- untils   of each that has a deadline, when it is too old
-- meta     the settings, what there was, and the rate at which jobs leave
-- dead     the ids of dead jobs, the oldest first
-- graves   the dead jobs
local jobs, out, tries, untils = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local meta, dead, graves = KEYS[5], KEYS[6], KEYS[7]
local nonce = ARGV[1]
$NOW

-- Whether the settings are those that the queue was made with; and whether there are none yet.
local function agree(field, said)
  local made = redis.call('HGET', meta, field)
  if made and made ~= said then
    return {nonce, 'settings', made}
  end
  return nil, not made
end

-- The window of ten seconds at work, how many left in it and in the one before.
local function drain()
  local is = redis.call('HMGET', meta, 'window', 'left', 'before')
  local at, left, before = tonumber(is[1] or 0), tonumber(is[2] or 0), tonumber(is[3] or 0)
  local window = math.floor(now / 10000000)
  if window > at then
    before = window == at + 1 and left or 0
    at, left = window, 0
  end
  return at, left, before
end

local function gone(count)
  if count > 0 then
    local at, left, before = drain()
    redis.call('HSET', meta, 'window', at, 'left', left + count, 'before', before)
  end
end

local function counts_all()
  return redis.call('HGET', meta, 'all') == '1'
end

local function count(what, by)
  if by > 0 then
    redis.call('HINCRBY', meta, what, by)
  end
end

-- How often it was delivered, whether it is held, and why it failed last.
local function try(id)
  local is = redis.call('HGET', tries, id) or '0-'
  local number, mark, why = string.match(is, '^(%d+)(.)(.*)$')
  return tonumber(number), mark == 'h', why
end

-- Removes jobs that are out.
local function remove(ids)
  redis.call('ZREM', out, unpack(ids))
  redis.call('HDEL', tries, unpack(ids))
  redis.call('HDEL', untils, unpack(ids))
  redis.call('XACK', jobs, 'workers', unpack(ids))
  redis.call('XDEL', jobs, unpack(ids))
  if counts_all() then
    gone(#ids)
  end
end

local function bury(id, number, why, keep)
  local entry = redis.call('XRANGE', jobs, id, id)[1]
  remove({id})
  count('died', 1)
  if entry then
    redis.call('RPUSH', dead, id)
    redis.call('HSET', graves, id, cmsgpack.pack({number, why, entry[2]}))
  end
  while redis.call('LLEN', dead) > keep do
    redis.call('HDEL', graves, redis.call('LPOP', dead))
  end
end
