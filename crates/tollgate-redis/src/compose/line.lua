-- Those who wait in line for a hold of a count: a sorted set of tickets by their arrivals, and one by
-- their ends. A ticket is written as the hold that it is for.

local function number(x)
  return string.format('%.0f', x)
end

-- One table, since a script has at most 200 local names. The most tickets of a count, and the shortest
-- and the longest time for which one lasts.
local line = {most = 1000, shortest = 1000000, longest = 10000000}

-- The tickets that have ended, by the clock alone.
function line.ended(key)
  local list = redis.call('ZRANGEBYSCORE', key .. '@ends', '-inf', number(now))
  for _, member in ipairs(list) do
    list[member] = true
  end
  return list
end

-- Those ahead of a question that has the ticket `own`, or none: the units that they want, how many
-- they are, and when the last ticket of the count ends. None ends later than it can rightly do.
-- Also how many there are, and whether `own` is one.
function line.ahead_of(key, own)
  local ahead = {units = 0, slots = 0, count = 0, last = 0, all = 0}
  local all = redis.call('ZCARD', key .. '@ends')
  if all == 0 then
    return ahead
  end
  local ended = line.ended(key)
  ahead.all = all - #ended
  if ahead.all == 0 then
    return ahead
  end
  local rows = redis.call('ZRANGE', key .. '@ends', -1, -1, 'WITHSCORES')
  ahead.last = math.min(tonumber(rows[2]), now + line.longest)
  local since = own and not ended[own] and redis.call('ZSCORE', key .. '@line', own)
  ahead.is_known = since
  local tickets
  if since then
    tickets = redis.call('ZRANGEBYSCORE', key .. '@line', '-inf', since)
  else
    tickets = redis.call('ZRANGE', key .. '@line', 0, -1)
  end
  for _, member in ipairs(tickets) do
    if since and member == own then
      break
    elseif not ended[member] then
      local cost = #member == 22 and struct.unpack('>I6', member, 17) or 1
      ahead.units, ahead.count = ahead.units + cost, ahead.count + 1
      ahead.slots = ahead.slots + (string.find(member, '^A') and cost or 1)
    end
  end
  return ahead
end

-- The units that those ahead want of a limit.
function line.wanted(count, limit)
  return count.ahead and not limit.unit and count.ahead[limit.step.counts] or 0
end

function line.leave(key, member)
  redis.call('ZREM', key .. '@line', member)
  redis.call('ZREM', key .. '@ends', member)
end

-- Forgets the tickets that have ended, and cuts those that end too late.
function line.repair(key)
  for _, member in ipairs(line.ended(key)) do
    line.leave(key, member)
  end
  local late = redis.call('ZRANGEBYSCORE', key .. '@ends', number(now + line.longest + 1), '+inf')
  for _, member in ipairs(late) do
    redis.call('ZADD', key .. '@ends', number(now + line.longest), member)
  end
end

-- Renews the ticket of a denied question on every count with slots, or takes it away where the
-- question waits no more.
function line.renew(counts, own, ttl, waits)
  local known, free = nil, now
  for _, count in ipairs(counts) do
    if count.ahead then
      local key = count.holds.key
      line.repair(key)
      local since = redis.call('ZSCORE', key .. '@line', own)
      local last = redis.call('ZRANGE', key .. '@line', -1, -1, 'WITHSCORES')[2]
      free = math.max(free, (tonumber(last) or 0) + 1)
      if since then
        known = math.min(known or tonumber(since), tonumber(since))
        line.leave(key, own)
      end
    end
  end
  for _, count in ipairs(waits and counts or {}) do
    if count.ahead then
      local tickets, ends = count.holds.key .. '@line', count.holds.key .. '@ends'
      local stop = now + math.max(line.shortest, math.min(ttl, line.longest))
      redis.call('ZADD', tickets, number(known or free), own)
      redis.call('ZADD', ends, number(stop), own)
      local last = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2]
      redis.call('PEXPIRE', tickets, lifetime(last - now))
      redis.call('PEXPIRE', ends, lifetime(last - now))
    end
  end
end

-- Takes the tickets of a name away.
function line.leave_name(key, name)
  local bytes = string.sub(member_of(name, 1), 2)
  for _, member in ipairs(redis.call('ZRANGE', key .. '@line', 0, -1)) do
    if string.sub(member, 2, 16) == bytes then
      line.leave(key, member)
    end
  end
end
