-- Adds a job: nonce, settings, bound, 1 for a bound of all, us of remembering, us of the deadline or
-- '', then the fields. KEYS[8] is there when the job is to be accepted once.
local settings, bound, all = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local other, is_new = agree('offering', settings)
if other then
  return other
end
if is_new then
  redis.call('HSET', meta, 'offering', settings, 'all', ARGV[4])
end
if KEYS[8] then
  local known = redis.call('GET', KEYS[8])
  local id, until_us = string.match(known or '', '^(.*) (%d+)$')
  if id and tonumber(until_us) > now then
    count('known', 1)
    return {nonce, 'known', id}
  end
end
local depth = redis.call('XLEN', jobs)
if not all then
  depth = depth - redis.call('ZCARD', out)
end
if depth >= bound then
  count('refused', 1)
  local _, left, before = drain()
  local wait = -1
  if left + before > 0 then
    wait = math.ceil((10000000 + now % 10000000) / (left + before))
  end
  return {nonce, 'full', depth, wait}
end
local ms = string.format('%.0f', math.floor(now / 1000))
local id = redis.pcall('XADD', jobs, ms .. '-*', unpack(ARGV, 7, #ARGV - $TAIL))
if type(id) == 'table' then
  -- The clock went back: the ids of a queue grow all the same.
  local info = redis.call('XINFO', 'STREAM', jobs)
  for place = 1, #info, 2 do
    if info[place] == 'last-generated-id' then
      ms = string.match(info[place + 1], '^%d+')
    end
  end
  id = redis.call('XADD', jobs, ms .. '-*', unpack(ARGV, 7, #ARGV - $TAIL))
end
if ARGV[6] ~= '' then
  redis.call('HSET', untils, id, string.format('%.0f', now + tonumber(ARGV[6])))
end
if KEYS[8] and tonumber(ARGV[5]) > 0 then
  local until_us = string.format('%.0f', now + tonumber(ARGV[5]))
  redis.call('SET', KEYS[8], id .. ' ' .. until_us, 'PX', $PX)
end
count('accepted', 1)
return {nonce, 'accepted', id, depth + 1}
