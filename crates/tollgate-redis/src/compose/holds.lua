-- The open holds of a count: their sums, and their sorted set.

-- The most ends that a denial looks at.
local most_ends = 64

function unit.add(sums, by, sign)
  for unit, amount in pairs(by or {}) do
    sums = sums or {}
    local sum = math.max(0, (sums[unit] or 0) + sign * amount)
    sums[unit] = sum > 0 and sum or nil
  end
  return sums
end

-- Gives limits that count nothing a unit of which no cost has an amount.
function unit.open(limits, most)
  for i in pairs(most.open or {}) do
    limits[i].unit = '-'
  end
end

-- The units of a limit that a hold keeps, or all holds; and those that ends charge.
function unit.kept(holds, limit)
  if limit.unit then
    return holds.by_units and holds.by_units[limit.unit] or 0
  end
  return holds.units
end

function unit.charging(holds, limit)
  if limit.unit then
    return holds.by_charging and holds.by_charging[limit.unit] or 0
  end
  return holds.charging
end

-- The part of a charge without a check that is a limit's, and whether the limits of its count all
-- count requests: then each is judged with all of it. A ban is so always, and none takes slots.
function unit.part(count, limit, amounts, first)
  local is_plain = true
  for _, other in ipairs(count.limits) do
    is_plain = is_plain and not other.unit
  end
  if limit.step.counts == 'units' then
    return amounts[limit.unit or 'requests'] or 0, is_plain
  end
  return (is_plain or not limit.step.counts) and first or 0, is_plain
end

-- The credits of a count: units that were given once, which charges take behind the limits.
local credit = {most = 16}

-- Whether a hold is open, or a credit has not ended.
function credit.is_open(holds)
  return holds.count > 0 or #holds.credits > 0
end

-- The units that are left for a limit.
function credit.of(holds, limit)
  local sum = 0
  for _, each in ipairs(counts_units(limit) and holds.credits or {}) do
    sum = sum + (each.unit == (limit.unit or 'requests') and each.left or 0)
  end
  return sum
end

-- Lets credits pay, as far as they can, the amount of each unit that its limits have no room for.
-- Answers by unit what they pay.
function credit.pay(limits, holds, amount_of)
  local paid, rooms, wanted = {}, {}, {}
  if #holds.credits == 0 then
    return paid
  end
  for _, limit in ipairs(limits) do
    if counts_units(limit) then
      repair(limit)
      local unit, left = limit.unit or 'requests', judge(limit)
      rooms[unit], wanted[unit] = math.min(rooms[unit] or left, left), amount_of(limit)
    end
  end
  for unit, room in pairs(rooms) do
    local rest = wanted[unit] > room and wanted[unit] or 0
    paid[unit] = rest
    for _, each in ipairs(holds.credits) do
      if each.unit == unit and each.stop > now then
        local taken = math.min(rest, each.left)
        each.left, rest = each.left - taken, rest - taken
      end
    end
    paid[unit] = paid[unit] - rest
  end
  return paid
end

-- Gives units back to what credits have paid, to the last to end first. Answers the rest.
function credit.back(holds, unit, rest)
  for i = #holds.credits, 1, -1 do
    local each = holds.credits[i]
    if each.unit == unit then
      local back = math.min(rest, math.max(0, each.given - each.left))
      each.left, rest = each.left + back, rest - back
    end
  end
  return rest
end

-- Takes back those of an id, which stay known. Answers how many units were given: nothing where the
-- id is not known, 0 where it was done before.
function credit.take_back(holds, id)
  local sum
  for _, each in ipairs(holds.credits) do
    if each.id == id then
      sum = (sum or 0) + each.given
      each.left, each.given = 0, 0
    end
  end
  return sum
end

-- Keeps those that a function says.
function credit.keep(holds, stays)
  local list = {}
  for _, each in ipairs(holds.credits) do
    if stays(each) then
      list[#list + 1] = each
    end
  end
  holds.credits = list
end

-- Forgets used-up ones, the first to end first, where there is no room for more of these units.
function credit.make_room(holds, units)
  local all = #holds.credits
  for _ in pairs(units) do
    all = all + 1
  end
  credit.keep(holds, function(each)
    local goes = all > credit.most and each.left == 0
    all = all - (goes and 1 or 0)
    return not goes
  end)
end

-- When the last one ends.
function credit.last(holds)
  return #holds.credits > 0 and holds.credits[#holds.credits].stop or 0
end

-- Those that have not ended, as they are written behind the sums.
function credit.text(holds)
  local words = {}
  for i, each in ipairs(holds.credits) do
    words[i] = each.id .. ':' .. each.unit .. '=' .. number(each.left) .. '/'
      .. number(each.given) .. '@' .. number(each.stop)
  end
  return #words > 0 and '+' .. table.concat(words, ',') or ''
end

local function add(holds, hold, sign)
  holds.count = math.max(0, holds.count + sign)
  holds.units = math.max(0, holds.units + sign * hold.units)
  holds.charging = math.max(0, holds.charging + sign * hold.charging)
  holds.slots = math.max(0, holds.slots + sign * hold.slots)
  if hold.by_units then
    holds.by_units = unit.add(holds.by_units, hold.by_units, sign)
    holds.by_charging = unit.add(holds.by_charging, hold.by_charging, sign)
  end
  if hold.is_charging then
    holds.chargers = math.max(0, holds.chargers + sign)
  end
  if sign > 0 and string.find(hold.member, '^%u') then
    holds.is_named = true
  end
end

local function holds_of(rows)
  local list = {}
  for i = 1, #rows, 2 do
    list[#list + 1] = hold_of(rows[i], rows[i + 1])
  end
  return list
end

-- Computes the sums again, of the holds that are not due.
local function recount(holds)
  holds.count, holds.units, holds.charging, holds.chargers, holds.slots = 0, 0, 0, 0, 0
  holds.first, holds.last, holds.by_units, holds.by_charging = 0, 0, nil, nil
  local rows = redis.call('ZRANGE', holds.key .. '@', number(holds.due), -1, 'WITHSCORES')
  for i, hold in ipairs(holds_of(rows)) do
    add(holds, hold, 1)
    if i == 1 then
      holds.first = hold.stop
    end
    holds.last = hold.stop
  end
end

local function read_holds(key)
  local holds = {key = key, count = 0, units = 0, charging = 0, chargers = 0, slots = 0, fence = 0,
    seen = 0, first = 0, last = 0, due = 0, back = 0, is_named = false, credits = {}}
  local v = redis.call('GET', key .. '@sums')
  if v then
    holds.is_known = true
    holds.count, holds.units, holds.charging, holds.slots, holds.fence, holds.seen, holds.first,
      holds.last, holds.chargers, holds.by_units, holds.by_charging, holds.credits =
        read_sums(v, true)
    if not holds.count then
      return nil, 'the sums of the holds were written by a newer version, or are damaged'
    end
    holds.is_named = string.byte(v) % 2 == 0
  end
  -- Something else at that key is an error here, before anything is written.
  local open = redis.call('ZCARD', key .. '@')
  -- A server dropped the sums and not the set, or an earlier version wrote them: it did not say how
  -- many ends charge.
  if not v and open > 0 or holds.charging > 0 and not holds.chargers then
    recount(holds)
  end
  holds.chargers = holds.chargers or 0
  return holds
end

-- The first holds to end, once what is due has ended, and all credits.
local function soonest(holds)
  local rows = redis.call('ZRANGE', holds.key .. '@', number(holds.due),
    number(holds.due + most_ends - 1), 'WITHSCORES')
  local list = holds_of(rows)
  for _, hold in ipairs(list) do
    hold.stop = hold.stop - holds.back
  end
  if #holds.credits > 0 then
    for _, each in ipairs(holds.credits) do
      list[#list + 1] = {credit = each, stop = each.stop}
    end
    table.sort(list, function(one, other) return one.stop < other.stop end)
  end
  return list
end

-- When the last hold ends.
local function last_end(holds)
  return holds.count > 0 and holds.last - holds.back or 0
end

-- Places a hold.
local function place(holds, member, stop)
  redis.call('ZADD', holds.key .. '@', number(stop), member)
  holds.first = holds.count == 0 and stop or math.min(holds.first, stop)
  holds.last = holds.count == 0 and stop or math.max(holds.last, stop)
  add(holds, hold_of(member, stop), 1)
end

-- The last end, once the hold that ended at `stop` ends at another time or is gone.
local function find_last(holds, stop)
  if holds.count > 0 and stop >= holds.last then
    local rows = redis.call('ZRANGE', holds.key .. '@', -1, -1, 'WITHSCORES')
    -- Where a server dropped the others, they end no later than it did.
    holds.last = tonumber(rows[2] or holds.last)
  end
end

-- Charges up to the debt of a limit; answers the units that were not charged. `fits` says that all
-- of it remains.
local function charge_some(limit, units, most, fits)
  local taken = units
  if not fits then
    repair(limit)
    taken = math.min(units, room(limit, most))
  end
  if taken > 0 then
    charge(limit, taken)
  end
  return units - taken
end

-- A limit whose count can be changed by itself.
local function copy_of(limit)
  local copy = {}
  for name, value in pairs(limit) do
    copy[name] = value
  end
  if limit.log then
    copy.log = new_log()
    copy.log.base = limit.log.base
    for i, at in ipairs(limit.log.times) do
      copy.log.times[i], copy.log.totals[i] = at, limit.log.totals[i]
    end
  elseif limit.words then
    copy.words = {unpack(limit.words)}
  end
  return copy
end

-- The time by which ends are judged, and by how much a clock that stepped back takes them along.
local function clock_of(holds)
  if not credit.is_open(holds) then
    return now, 0
  elseif holds.seen - now > skew then
    return now, holds.seen - now
  end
  return math.max(now, holds.seen), 0
end

local function due_of(holds, at, back)
  return holds_of(redis.call('ZRANGEBYSCORE', holds.key .. '@', '-inf', number(at + back),
    'WITHSCORES'))
end

-- Charges what the ends of holds charge, each at its own time. `most` is the maximum use of each
-- limit. The credits of `holds`, if there are any, pay before anything is owed.
local function charge_ends(limits, due, back, most, holds)
  local real = now
  for _, hold in ipairs(due) do
    if hold.is_charging then
      now = hold.stop - back
      local paid = holds and credit.pay(limits, holds, function(limit)
        return unit.charging(hold, limit)
      end) or {}
      for i, limit in pairs(limits) do
        if type(i) == 'number' and (limit.words or limit.log) and counts_units(limit)
            and unit.charging(hold, limit) > 0 then
          local rest = unit.charging(hold, limit) - (paid[limit.unit or 'requests'] or 0)
          charge_some(limit, rest, most[i])
          limit.changed = true
        end
      end
    end
  end
  now = real
end

-- Counts again where a server has dropped the set of the holds, but not their sums.
local function mend_sums(holds)
  if redis.call('ZCARD', holds.key .. '@') ~= holds.count + holds.due then
    recount(holds)
  end
end

-- Lets holds end that are due, by this time. A peek leaves the keys as they are. A count that was
-- carried over has been charged already.
local function end_holds(count, peek, at, back)
  local holds = count.holds
  if holds.is_over and not peek then
    redis.call('DEL', holds.key .. '@')
  end
  local key = holds.key .. '@'
  -- No hold ends before the first; one that was taken away may have been it.
  if holds.count == 0 or back == 0 and holds.first > at then
    return
  end
  local due = due_of(holds, at, back)
  if not count.is_carried then
    charge_ends(count.limits, due, back, count.most_before or count.most, holds)
  end
  for _, hold in ipairs(due) do
    add(holds, hold, -1)
  end
  if peek then
    holds.due, holds.back = #due, back
    mend_sums(holds)
    return
  end
  if #due > 0 then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', number(at + back))
  end
  if back > 0 then
    -- Each hold keeps the time that it had left.
    holds.last = holds.last - back
    for _, hold in ipairs(holds_of(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'))) do
      redis.call('ZADD', key, number(hold.stop - back), hold.member)
    end
  end
  mend_sums(holds)
  local rows = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  holds.first = tonumber(rows[2] or 0)
end

-- Lets everything end that is due. Answers the time by which ends are judged.
local function end_due(count, peek)
  local holds = count.holds
  local at, back = clock_of(holds)
  holds.seen = at
  for _, each in ipairs(holds.credits) do
    each.stop = each.stop - back
  end
  end_holds(count, peek, at, back)
  credit.keep(holds, function(each) return each.stop > at end)
  return at
end

local function kept_of(count, limit)
  if limit.step.counts == 'units' then
    return unit.kept(count.holds, limit)
  end
  return count.holds[limit.step.counts] or 0
end

-- The wait until a limit admits, while holds and credits end one after the other.
local function wait_for(count, i, wanted, kept, given)
  local limit, holds, real = count.limits[i], count.holds, now
  local counts, copy, seen = limit.step.counts, limit, 0
  local capacity = limit.numbers[limit.step.capacity]
  local function wait_now()
    local all = math.max(0, wanted + kept - given)
    if all > capacity then
      return -1
    elseif all == 0 and given > 0 then
      return 0
    end
    return (select(8, judge(copy, all)))
  end
  local function charge_apart(units)
    if units > 0 and counts == 'units' then
      if copy == limit then
        copy = copy_of(limit)
      end
      charge_some(copy, units, count.most[i])
    end
  end
  for _, hold in ipairs(soonest(holds)) do
    local wait = wait_now()
    if wait >= 0 and now + wait < hold.stop then
      wait = now - real + wait
      now = real
      return wait
    end
    now = math.max(now, hold.stop)
    if hold.credit then
      local is_own = hold.credit.unit == (limit.unit or 'requests')
      given = math.max(0, given - (is_own and hold.credit.left or 0))
    else
      kept = math.max(0, kept - (counts == 'units' and unit.kept(hold, limit) or hold[counts]))
      seen = seen + unit.charging(hold, limit)
      charge_apart(unit.charging(hold, limit))
    end
  end
  -- More holds may be open than are looked at, and may end with those: by the last end all of them
  -- have ended.
  local last = math.max(last_end(holds), credit.last(holds))
  if last >= now then
    now, kept, given = last, 0, 0
    charge_apart(math.max(0, unit.charging(holds, limit) - seen))
  end
  local wait = wait_now()
  if wait >= 0 then
    wait = now - real + wait
  end
  now = real
  return wait
end

-- The wait until a limit is fresh, if every hold ends by itself.
local function reset_of(count, i, by_itself)
  local limit, holds, real = count.limits[i], count.holds, now
  if kept_of(count, limit) == 0 then
    return by_itself
  end
  local until_last = math.max(0, last_end(holds) - now)
  local all = math.max(by_itself, until_last)
  local charging = counts_units(limit) and unit.charging(holds, limit) or 0
  if charging > 0 then
    local copy = copy_of(limit)
    now = now + until_last
    charge_some(copy, charging, count.most[i])
    local _, reset = judge(copy)
    all = math.max(all, until_last + reset)
    now = real
  end
  return all
end

-- A limit beside its held units and those wanted ahead in line: the remaining units, how long until
-- the cost is admitted, until all is free by itself, whether holds or the line make the wait
-- longer, and when a charge is recorded.
local function judge_beside(count, i, wanted)
  local limit = count.limits[i]
  local remaining, reset, is_behind, _, _, z, row_at, wait = judge(limit, wanted)
  limit.reset, limit.is_behind = reset, is_behind
  local kept, ahead = kept_of(count, limit), line.wanted(count, limit)
  local given = credit.of(count.holds, limit)
  local left = math.max(0, remaining + given - kept)
  -- The limit's own wait assumes that every hold is settled now with 0, and that nobody waits
  -- ahead.
  local alone = wait
  if wanted > 0 and wanted <= left or given > 0 and wanted + kept <= remaining + given then
    wait = 0
  elseif limit.step.counts and wanted > limit.numbers[limit.step.capacity] and given == 0 then
    wait = -1
  elseif kept > 0 or given > 0 then
    wait = wait_for(count, i, wanted, kept, given)
  end
  if ahead > 0 and wanted + ahead > left and wait >= 0 then
    -- Those ahead may be admitted, or leave, before their tickets end.
    wait = math.max(wait, count.ahead.last - now)
  end
  local held = alone >= 0 and wait > alone and 1 or 0
  local at = row_at or z or now
  if limit.log then
    at = math.max(now, limit.log.times[#limit.log.times] or now)
  end
  return left, wait, reset, held, at
end

-- Charges amounts without a check, of a count on which nothing is due. Answers for each limit whether
-- they fitted, what was cut, and what remains then.
local function charge_beside(count, amounts, first)
  local fits, rows = {}, {}
  local function part_of(limit)
    return (unit.part(count, limit, amounts, first))
  end
  for i, limit in ipairs(count.limits) do
    repair(limit)
    local units, is_plain = unit.part(count, limit, amounts, first)
    local left, wait = judge_beside(count, i, units)
    fits[i] = units > 0 and units <= left or units == 0 and (is_plain or wait == 0)
      or is_plain and limit.step.counts == 'slots'
  end
  local paid = credit.pay(count.limits, count.holds, part_of)
  for i, limit in ipairs(count.limits) do
    local units, is_plain = unit.part(count, limit, amounts, first)
    local rest, cut = units - (paid[limit.unit or 'requests'] or 0), 0
    if rest > 0 and counts_units(limit) then
      cut = charge_some(limit, rest, count.most[i], fits[i])
    end
    limit.changed = true
    -- After a commit of nothing, the wait is that of one more unit.
    local left, wait, reset = judge_beside(count, i, is_plain and math.max(units, 1) or units)
    rows[i] = {fits[i] and 1 or 0, cut, left, wait, reset_of(count, i, reset)}
  end
  return rows
end

-- Writes the sums, the time to live of the holds, and the count as long as any of it counts.
local function write_count(count)
  local holds, limits = count.holds, count.limits
  local least = 0
  if credit.is_open(holds) then
    local last = math.max(last_end(holds), credit.last(holds))
    -- The charges of the ends count after them.
    least = math.max(0, last - now) + (holds.chargers > 0 and count.span or 0)
  end
  limits.held = credit.is_open(holds)
  for i, limit in ipairs(limits) do
    limit.most = count.most[i]
    limit.changed = limit.changed or limit.log and limits.held ~= count.was_held
  end
  write(holds.key, count.logs, limits, #limits, count.has_state, least)
  if not limits.held and holds.fence == 0 and not holds.is_known then
    return
  end
  -- The sums lie as long as the holds that they are of; and as long as the next fencing number has
  -- to be larger, even if the clock is a little behind then.
  local longest = lifetime(math.max(least, holds.fence + skew - now, 0))
  if holds.count == 0 then
    redis.call('DEL', holds.key .. '@')
  else
    redis.call('PEXPIRE', holds.key .. '@', longest)
  end
  if not limits.held and holds.fence == 0 then
    redis.call('DEL', holds.key .. '@sums')
  else
    local others = {}
    for unit, kept in pairs(holds.by_units or {}) do
      local charging = holds.by_charging and holds.by_charging[unit] or 0
      others[#others + 1] = unit .. '=' .. number(kept) .. '/' .. number(charging) .. ','
    end
    table.sort(others)
    local sums = sums_of(holds.count > 0 and holds.is_named, holds.chargers,
      table.concat(others) .. credit.text(holds), holds.count, holds.units, holds.charging, holds.slots, holds.fence, holds.seen, holds.first,
      holds.last)
    redis.call('SET', holds.key .. '@sums', sums, 'PX', longest)
  end
end

local function is_same(was, limit)
  return was.strategy == limit.strategy and was.code == limit.code
    and same_numbers(was.numbers, limit.numbers, limit.code == 'k' and 3 or nil)
end

-- Gives the calendars of a state the edges that the caller's `tag` brings: their own may be long
-- over.
local function renew_edges(limits, tag)
  local brought = string.find(tag, 'fk2:', 1, true) and read_tag(tag) or {}
  for i, limit in ipairs(brought) do
    local was = limits[i]
    if was and was.code == 'k' and limit.code == 'k' then
      for n = 4, 7 do
        was.numbers[n] = limit.numbers[n]
      end
      ready(was)
    end
  end
end

-- The most units that can be used of each limit as it was written. Of one that was not it is that of
-- the limits that are asked for.
local function most_as_written(old, asked)
  local list = {}
  for i = 1, #asked do
    local was = old[i]
    if was and (was.code == 'g' or was.code == 'i') then
      list[i] = was.numbers[4]
    elseif was and hides_most(was) then
      list[i] = was.most or usual_most(was.numbers)
    else
      list[i] = asked[i]
    end
  end
  return list
end

-- For how many microseconds the maximum use of these limits counts.
local function span_of(limits)
  local longest = 0
  for _, limit in ipairs(limits) do
    local n, span = limit.numbers, 0
    if limit.code == 'g' then
      span = math.ceil(n[4] * n[1] / n[2])
    elseif limit.code == 'i' then
      span = math.ceil(n[4] / n[1]) * n[2]
    elseif limit.code == 's' then
      span = n[2] * (n[3] + 1)
    elseif limit.code == 'k' then
      -- No window is longer than its least by more: see most_us in calendar.rs.
      span = n[2] + 432000000000
    elseif hides_most(limit) then
      span = n[2]
    end
    longest = math.max(longest, span)
  end
  return longest
end

-- A count that is asked for under `tag`, with its holds: its counted units under its present or
-- other numbers.
local function open_count(key, logs, tag, has_state, most, span)
  local limits = read_tag(tag)
  unit.name(key, limits)
  unit.open(limits, most)
  local old, wrong, had_state = load(key, logs, #limits, limits)
  if wrong then
    return nil, wrong
  end
  renew_edges(old, tag)
  local holds
  holds, wrong = read_holds(key)
  if not holds then
    return nil, 'TOLLGATE ' .. wrong
  end
  local count = {limits = limits, holds = holds, logs = logs, has_state = has_state, most = most,
    span = span, carried = {}, was_held = old.held or false, is_carried = false}
  local is_new = not had_state
  for i = 1, #limits do
    is_new = is_new and not old[i]
  end
  for i, limit in ipairs(limits) do
    local stays = is_new or old[i] and is_same(old[i], limit)
    count.is_carried = count.is_carried or not stays
  end
  if credit.is_open(holds) and not old.held then
    -- The state lived as long as they were open, and as long as the charges of their ends counted.
    holds.count, holds.units, holds.charging, holds.slots, holds.is_over = 0, 0, 0, 0, true
    holds.chargers, holds.by_units, holds.by_charging, holds.credits = 0, nil, nil, {}
  end
  count.most_before = most_as_written(old, most)
  if count.is_carried and holds.chargers > 0 then
    -- Due holds are charged first, under the old numbers.
    local at, back = clock_of(holds)
    charge_ends(old, due_of(holds, at, back), back, count.most_before)
  end
  -- The keys of its counts. None is written that was not read: on a cluster each may have moved to
  -- another node already, which is an error here, before anything is written.
  count.keys = {key}
  for i, limit in ipairs(limits) do
    count.carried[i] = adopt(limit, old[i], is_new)
    if limit.log or limit.stale then
      count.keys[#count.keys + 1] = logs[i]
    end
  end
  return count
end

-- A count as it was written, with its holds; nothing where none are open.
local function open_held(key, logs, tag, most)
  local limits, wrong, has_state = load(key, logs, #most)
  if wrong then
    return nil, wrong
  end
  if not limits.held then
    return nil
  end
  renew_edges(limits, tag)
  local holds
  holds, wrong = read_holds(key)
  if not holds then
    return nil, 'TOLLGATE ' .. wrong
  end
  local places = {}
  for i = 1, #most do
    -- A log without events beside others has lost its key.
    if not limits[i] then
      return nil, 'TOLLGATE the state is damaged: it is of another number of limits'
    end
    places[i] = limits[i]
  end
  unit.open(places, most)
  places.held, places.text = true, limits.text
  -- The maximum use, and for how long it counts, are as they were written, whatever the holder
  -- knows.
  return {limits = places, holds = holds, logs = logs, has_state = has_state,
    span = span_of(places), most = most_as_written(places, most), was_held = true,
    is_carried = false}
end

-- Deletes the logs of limits whose names another strategy counts under now.
local function drop_stale(count)
  for i, limit in ipairs(count.limits) do
    if limit.stale and count.logs[i] ~= count.holds.key then
      redis.call('DEL', count.logs[i])
    end
  end
end

-- Where the logs of a count lie, one for each limit: the identities of its limits end its key. They
-- are not keys of the call, like those of its holds: most limits have none.
local function logs_of(key, limits)
  if limits == 1 then
    return {key}
  end
  local logs = {}
  -- The name of a policy is not repeated.
  for identity in string.gmatch(string.match(key, '^.*[}>]:?(.*)$'), '[^,]+') do
    logs[#logs + 1] = key .. '~' .. identity
  end
  return logs
end

-- The counts that the arguments name from `a` on, each with its key. For each: how many limits,
-- their identities, 1 when they have a state beside their logs, how long its counted units can
-- matter. For each limit: its letter, its maximum use, and the arguments of its functions. Calls
-- `open` for each.
local function each_count(a, open)
  for _, key in ipairs(KEYS) do
    local limits, most = tonumber(ARGV[a]), {}
    for i = 1, limits do
      local arg = ARGV[a + 3 + i]
      most[i] = (struct.unpack('>I7', arg, 2))
      local letter = string.byte(arg)
      if letter == 45 then
        most.open = most.open or {}
        most.open[i] = true
      elseif letter == 107 or letter == 75 then
        local first, last = struct.unpack('>I7', arg, 30), struct.unpack('>I7', arg, 51)
        if now < first * 1000000 or now >= last * 1000000 then
          return 'other windows'
        end
      end
    end
    local wrong = open(key, logs_of(key, limits), ARGV[a + 1], ARGV[a + 2] == '1', most,
      tonumber(ARGV[a + 3]))
    if wrong then
      return wrong
    end
    a = a + 4 + limits
  end
end

-- Changes the limits of the count that the arguments name from `a` on, each by itself, and writes
-- them.
local function change(a, reply, each)
  local count
  local wrong = each_count(a, function(key, logs, tag, has_state, most, span)
    local wrong
    count, wrong = open_count(key, logs, tag, has_state, most, span)
    return wrong
  end)
  if wrong then
    return refused(wrong)
  end
  local before_ms, mark = longest_pttl(count.keys), mark_of(KEYS[1])
  end_due(count)
  drop_stale(count)
  for i, limit in ipairs(count.limits) do
    repair(limit)
    each(limit, i, count)
    limit.changed = true
  end
  write_count(count)
  -- Units that are free now, or counted under other numbers, were charged before: they could be
  -- given back as long as their state would have lived.
  if before_ms > longest_pttl(count.keys) then
    outlive(KEYS[1] .. '!reset', before_ms, mark)
  end
  return reply
end

-- Names of holds. A name has a key beside its open hold, with the letter of its kind, how long it
-- was asked for, its fencing number, how often it was answered, and its cost. When it is settled,
-- the key has the charge, and until when that is remembered. Names that were released without a
-- hold are in a sorted set.

-- How often a named hold is answered again, and how many early marks a count has at most.
local most_repeats, most_marks = 16, 1000

-- The end of the key of a name, from the id of a hold: the same for each kind.
local function name_of(id)
  return string.byte(id) < 54 and '4e' .. string.sub(id, 3, 32) or nil
end

-- The open hold of a name.
local function open_under(holds, name)
  local key = holds.key .. '@' .. name
  local letter, ttl, fence, answers, cost =
    string.match(redis.call('GET', key) or '', '^o(%u) (%d+) (%d+) (%d+) ([%l%d_=,]+)$')
  if not letter then
    return nil
  end
  local id = string.format('%02x', string.byte(letter)) .. string.sub(name, 3)
  local member = member_of(id, cost)
  local stop = redis.call('ZSCORE', holds.key .. '@', member)
  return stop and {key = key, letter = letter, ttl = tonumber(ttl), fence = tonumber(fence),
    answers = tonumber(answers), cost = cost, member = member, stop = tonumber(stop)}
end

-- Writes what is kept beside a named hold that ends at `stop`.
local function write_name(key, letter, ttl, fence, answers, cost, stop)
  local value = 'o' .. table.concat({letter, number(ttl), number(fence), number(answers), cost}, ' ')
  redis.call('SET', key, value, 'PX', lifetime(math.max(0, stop - now)))
end

-- The charge of a name or an id that is over. Nothing where that is not known. The mark of an id
-- says by a dot until when; one of an earlier version says it by its time to live alone.
local function over(key, name, at)
  local v = redis.call('GET', key .. '@' .. name) or ''
  local actual, till = string.match(v, '^s([%l%d_=,]+) (%d+)$')
  if not till then
    actual, till = string.match(v, '^([%l%d_=,]+)%.?(%d*)$')
  end
  if till and (till == '' or tonumber(till) > at) then
    return tonumber(actual) or actual
  end
  till = redis.call('ZSCORE', key .. '@marks', name)
  return till and tonumber(till) > at and 0 or nil
end

-- Leaves a mark that a name was released without a hold, for so many microseconds. The one of too
-- many that ends first goes.
local function mark_early(key, name, at, keeps)
  local marks = key .. '@marks'
  -- Not those that a clock that is a little behind may ask for.
  redis.call('ZREMRANGEBYSCORE', marks, '-inf', number(at - skew))
  if redis.call('ZCARD', marks) >= most_marks then
    redis.call('ZREM', marks, unpack(redis.call('ZRANGE', marks, 0, 0)))
  end
  redis.call('ZADD', marks, number(at + keeps), name)
  -- A mark of other numbers may end later.
  local last = redis.call('ZRANGE', marks, -1, -1, 'WITHSCORES')
  redis.call('PEXPIRE', marks, lifetime(math.max(0, last[2] - now)))
end
