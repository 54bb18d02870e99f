-- The fast path of holds: one count of pairs or slots under the numbers that it was written with,
-- without a due hold, when the request fits. Everything else is left to the general functions,
-- which are made only then: until all is known to be simple, nothing is written. `simple` has the
-- steps of such limits.

-- The parsed arguments of a limit and of a description: most of several questions have the same.
local read_limits, read_tags = {}, {}

-- The step of a limit, the arguments of its functions, and its capacity. Nothing where it is not
-- simple.
local function read_limit(arg)
  local step = simple[string.sub(arg, 1, 1)]
  if not step then
    return nil
  end
  local args = {struct.unpack('>' .. string.rep('I7', (#arg - 8) / 7), arg, 9)}
  args[#args] = nil
  -- A state with holds records the debt of a window where it is not the default.
  local letter = string.byte(arg)
  if (letter == 102 or letter == 107)
      and (struct.unpack('>I7', arg, 2)) ~= math.min(2 * args[1], 1099511627776) then
    return nil
  end
  if letter == 107 and (now < args[4] * 1000000 or now >= args[7] * 1000000) then
    return nil
  end
  local read = {step, args, args[step.capacity]}
  read_limits[arg] = read
  return read
end

-- The description without its end, and without its version too.
local function read_tag(tag)
  local read = {string.sub(tag, 1, -2), string.sub(tag, 2, -2)}
  read_tags[tag] = read
  return read
end

-- The count that the arguments name from `a` on. Nothing where it is not simple.
local function simple_count(a)
  if #KEYS ~= 1 then
    return nil
  end
  local key, tag = KEYS[1], ARGV[a + 1]
  local v = redis.pcall('GET', key)
  if type(v) == 'table' then
    return nil
  end
  local read = read_tags[tag] or read_tag(tag)
  local body, description = read[1], read[2]
  local from, held = #tag + 1, false
  if v then
    held = string.byte(v, #tag) == 104
    from = held and from + 1 or from
    if string.byte(v) ~= (held and 50 or 49) or string.sub(v, 2, #body) ~= description
        or string.byte(v, from - 1) ~= 124 then
      return nil
    end
  end
  local limits = {}
  for i = a + 4, a + 3 + ARGV[a] do
    local read = read_limits[ARGV[i]] or read_limit(ARGV[i])
    if not read then
      return nil
    end
    local step, args, x, y = read[1], read[2], 0, 0
    if v and step.view then
      if #v < from + 12 then
        return nil
      end
      x, y, from = struct.unpack('>I7I6', v, from)
      if x >= 9007199254740992 or not step.sound({x, y}, args) then
        return nil
      end
    end
    -- All fields at a time: a table that grows is moved.
    limits[i - a - 3] = {step = step.view and step, args = args, capacity = read[3], a = x, b = y,
      left = 0, recorded = 0, alone = 0}
  end
  -- A fresh count of several limits may have logs of other strategies.
  if v and from ~= #v + 1 or not v and #limits > 1 then
    return nil
  end
  local count = {key = key, limits = limits, body = body, description = description, held = held,
    is_known = false, span = ARGV[a + 3], open = 0, units = 0, charging = 0, chargers = 0, slots = 0,
    fence = 0, seen = now, first = 0, last = 0}
  local sums = redis.call('GET', key .. '@sums')
  if sums then
    local open, units, charging, slots, fence, seen, first, last, chargers = read_sums(sums)
    -- An earlier version did not say how many ends charge.
    if not open or charging > 0 and not chargers then
      return nil
    end
    count.is_known, count.fence, count.open = true, fence, open
    if open > 0 then
      count.units, count.charging, count.slots = units, charging, slots
      count.chargers = chargers or 0
      count.first, count.last, count.seen = first, last, math.max(now, seen)
      if seen - now > skew or first <= count.seen then
        return nil
      end
    end
  elseif redis.call('ZCARD', key .. '@') > 0 then
    -- A server dropped the sums, and not the set.
    return nil
  end
  if held ~= (count.open > 0) then
    return nil
  end
  return count
end

-- A limit's answer to a cost at a time, from its two integers. Nothing where the clock has stepped
-- back.
local function judge_pair(limit, a, b, at, cost)
  local x, y, z, back = limit.step.view(a, b, at, unpack(limit.args))
  if back then
    return nil
  end
  local remaining, _, reset = limit.step.judge(x, y, z, at, cost, unpack(limit.args))
  return remaining, reset, x, y, z
end

-- The two integers of a limit after a charge.
local function charge_pair(limit, a, b, at, units)
  local x, y, z = limit.step.view(a, b, at, unpack(limit.args))
  return limit.step.charge(x, y, z, at, units, unpack(limit.args))
end

-- How long until all of a limit is free, where all of it by itself is so in `alone`. Nothing where
-- the ends charge more than then remains.
local function reset_beside(count, limit, alone)
  local kept = limit.step and count.units or count.slots
  if kept == 0 then
    return alone
  end
  local until_last = math.max(0, count.last - now)
  local all = math.max(alone, until_last)
  if count.charging > 0 and limit.step then
    local at = now + until_last
    if count.charging > judge_pair(limit, limit.a, limit.b, at, 1) then
      return nil
    end
    local a, b = charge_pair(limit, limit.a, limit.b, at, count.charging)
    local _, reset = judge_pair(limit, a, b, at, 1)
    all = math.max(all, until_last + reset)
  end
  return all
end

-- Whether the commands of a write may be called, once that was asked: it is so for all questions.
local allowed

-- Writes the state, which stays as it is if it `is_same`, and the sums of the holds. Answers how
-- long that lies.
local function write_simple(count, is_same)
  local is_open, least = count.open > 0, 0
  if is_open then
    least = math.max(0, count.last - now) + (count.charging > 0 and count.span or 0)
  end
  local most, something, integers = least, is_open, ''
  for _, limit in ipairs(count.limits) do
    if limit.step then
      most, something = math.max(most, limit.alone), something or limit.a > 0 or limit.b > 0
      integers = integers .. struct.pack('>I7I6', limit.a, limit.b)
    end
  end
  if is_same and is_open == count.held then
    redis.call('PEXPIRE', count.key, lifetime(most))
  elseif something then
    local tag = is_open and '2' .. count.description .. 'h|' or count.body .. '|'
    redis.call('SET', count.key, tag .. integers, 'PX', lifetime(most))
  else
    redis.call('DEL', count.key)
  end
  if is_open or count.fence > 0 then
    local longest = lifetime(math.max(least, count.fence + skew - now, 0))
    local sums = sums_of(false, count.chargers, '', count.open, count.units, count.charging, count.slots,
      count.fence, count.seen, count.first, count.last)
    redis.call('SET', count.key .. '@sums', sums, 'PX', longest)
    return longest
  elseif count.is_known then
    redis.call('DEL', count.key .. '@sums')
  end
end

-- place

-- A check beside open holds, or the placing of a hold, where all of it is admitted.
local function place_simple()
  local cost, id = tonumber(ARGV[2]), ARGV[4]
  -- The id of a named hold begins with a large letter, that of a credit with `k`.
  if not cost or ARGV[3] ~= 'whole' and ARGV[3] ~= 'waiting'
      or id ~= '' and string.byte(id) < 54 or string.sub(id, 1, 2) == '6b' then
    return nil
  end
  local count = simple_count(8)
  if not count or count.open >= most_holds or id == '' and count.open == 0 then
    return nil
  end
  local hold = id ~= '' and hold_of(member_of(id, cost), 0)
  if hold and hold.charging > 0 and count.chargers >= most_charging then
    return nil
  end
  local charges = not hold or hold.units == 0
  local fence = math.max(count.seen, count.fence + 1)
  local stop = hold and count.seen + tonumber(ARGV[5]) or 0
  for _, limit in ipairs(count.limits) do
    local left, recorded, wanted
    if limit.step then
      local remaining, alone, x, y, z = judge_pair(limit, limit.a, limit.b, now, cost)
      if not remaining then
        return nil
      end
      wanted, left, recorded, limit.alone = cost, remaining - count.units, now, alone
      if wanted > left then
        return nil
      end
      if charges then
        limit.a, limit.b = limit.step.charge(x, y, z, now, cost, unpack(limit.args))
        _, limit.alone = judge_pair(limit, limit.a, limit.b, now, 1)
        recorded = z
      end
    else
      wanted, left, recorded = hold and hold.slots, limit.capacity - count.slots, now
      if not hold or wanted > left or redis.call('ZCARD', count.key .. '@line') > 0 then
        return nil
      end
    end
    limit.left, limit.recorded = left - wanted, recorded
  end
  if hold then
    count.first = count.open == 0 and stop or math.min(count.first, stop)
    count.last = count.open == 0 and stop or math.max(count.last, stop)
    count.open, count.units = count.open + 1, count.units + hold.units
    count.charging, count.slots = count.charging + hold.charging, count.slots + hold.slots
    count.chargers = count.chargers + (hold.charging > 0 and 1 or 0)
    count.fence = fence
  end
  local reply = {ARGV[1], cost, now, hold and fence or 0, stop}
  for _, limit in ipairs(count.limits) do
    local reset = reset_beside(count, limit, limit.alone)
    if not reset then
      return nil
    end
    local r = #reply
    reply[r + 1], reply[r + 2], reply[r + 3] = limit.left, 0, reset
    reply[r + 4], reply[r + 5], reply[r + 6] = 0, limit.recorded, 0
  end
  -- The first write is the one that something else at the key of the holds would refuse.
  if hold then
    if allowed == nil then
      allowed = may('ZADD', 'SET', 'PEXPIRE')
    end
    if not allowed then
      return nil
    end
    redis.call('ZADD', count.key .. '@', string.format('%d', stop), hold.member)
  end
  local longest = write_simple(count, not charges)
  if hold then
    redis.call('PEXPIRE', count.key .. '@', longest)
  end
  return reply
end

-- settle

-- A commit of units that still remain.
local function settle_simple()
  local id, cost, actual = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
  local count = cost and actual and simple_count(6)
  if not count or count.open == 0 or redis.call('GET', count.key .. '@' .. id) then
    return nil
  end
  local holds = count.key .. '@'
  local hold = hold_of(member_of(id, cost), 0)
  local member = hold.member
  local stop = redis.call('ZSCORE', holds, member)
  if not stop then
    return nil
  end
  count.open, count.units = count.open - 1, math.max(0, count.units - hold.units)
  count.charging = math.max(0, count.charging - hold.charging)
  count.chargers = math.max(0, count.chargers - (hold.charging > 0 and 1 or 0))
  count.slots = math.max(0, count.slots - hold.slots)
  if count.open > 0 and tonumber(stop) >= count.last then
    local rows = redis.call('ZRANGE', holds, -2, -1, 'WITHSCORES')
    if #rows < 4 then
      return nil
    end
    count.last = tonumber(rows[rows[3] == member and 2 or 4])
  end
  local reply, wanted = {ARGV[1], 2, actual}, math.max(actual, 1)
  for _, limit in ipairs(count.limits) do
    local left, wait = 0, 0
    if limit.step then
      local remaining, alone = judge_pair(limit, limit.a, limit.b, now, 1)
      if not remaining or actual > math.max(0, remaining - count.units) then
        return nil
      end
      if actual > 0 then
        limit.a, limit.b = charge_pair(limit, limit.a, limit.b, now, actual)
        remaining, alone = judge_pair(limit, limit.a, limit.b, now, 1)
      end
      left, limit.alone = math.max(0, remaining - count.units), alone
    else
      left = math.max(0, limit.capacity - count.slots)
      wait = wanted > limit.capacity and -1 or 0
    end
    if wanted > left and wait == 0 then
      return nil
    end
    local reset = reset_beside(count, limit, limit.alone)
    if not reset then
      return nil
    end
    local r = #reply
    reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4], reply[r + 5] = 1, 0, left, wait, reset
  end
  if allowed == nil then
    allowed = may('ZREM', 'SET', 'PEXPIRE', 'DEL')
  end
  if not allowed then
    return nil
  end
  redis.call('ZREM', holds, member)
  if string.sub(id, 1, 2) ~= '61' then
    local till = count.seen + 1000 * ARGV[5]
    redis.call('SET', holds .. id, mark_of_settled(actual, till), 'PX', lifetime(till - now))
  end
  local longest = write_simple(count, actual == 0)
  -- The last one took its set along. Others must not lie longer than their sums.
  if count.open > 0 then
    redis.call('PEXPIRE', holds, longest)
  end
  return reply
end
