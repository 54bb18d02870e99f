-- The twin of sliding_log/mod.rs.
-- State: events, oldest first from 1, each with its time and the total of all costs up to it;
-- totals wrap around at 2^48, only differences count. `event(i)` answers time and total, or
-- nothing past the newest.
-- Numbers: the units, the period.

-- The first event from `low` on for which `found` holds, one past the newest when none; the total
-- before it, and its time. Outward from `low` in doubling steps, then by halves.
local function log_search(event, low, before, found)
  local reach, time = 1, nil
  while true do
    local at, total = event(low + reach - 1)
    if not at or found(at, total) then
      time = at
      break
    end
    low, before, reach = low + reach, total, reach * 2
  end
  local high = low + reach
  while low + 1 < high do
    local span = high - low - 1
    local middle = low + (span - span % 2) / 2
    local at, total = event(middle)
    if at and not found(at, total) then
      low, before = middle + 1, total
    else
      high, time = middle + 1, at
    end
  end
  return low, before, time
end

-- The first event that counts and the total before it, the units that count, and the time that
-- counts.
local function log_view(event, base, oldest, newest, total, now, units, period)
  if not newest then
    return nil, base, 0, now, false
  end
  local at = math.max(now, newest)
  local first, before = 1, base
  if newest + period <= at then
    return nil, total, 0, at, false
  end
  if oldest + period <= at then
    first, before = log_search(event, 1, base, function(time)
      return time + period > at
    end)
  end
  local used = (total - before) % 281474976710656
  if newest - now > 1000000 then
    return nil, base, used, now, true
  end
  return first, before, used, at, false
end

local function log_judge(event, first, before, used, at, back, newest, now, cost, units, period)
  local remaining = math.max(0, units - used)
  local wait, reset = 0, 0
  if back then
    newest = now
  end
  if cost > units then
    wait = -1
  elseif used + cost > units then
    local leaving = now
    if not back then
      local freed = used + cost - units
      local _, _, time = log_search(event, first, before, function(_, total)
        return (total - before) % 281474976710656 >= freed
      end)
      leaving = time
    end
    wait = leaving + period - now
  end
  if used > 0 then
    reset = newest + period - now
  end
  return remaining, wait, reset
end

-- How a charge is written ('anew', in place of all events; 'amend', into the newest event; 'push',
-- after it) and with which total.
local function log_charge(first, used, at, back, newest, total, now, cost, units, period)
  local reset = at + period - now
  if not newest or not first or back then
    return reset, 'anew', used + cost
  end
  local sum = (total + cost) % 281474976710656
  if newest == at then
    return reset, 'amend', sum
  end
  return reset, 'push', sum
end

-- cold

local function log_numbers(...)
  return ...
end

-- The rest of a log when events that count lose some of their cost: `change` is asked for each,
-- oldest first, with its time and its cost, and answers the cost that stays.
local function log_rewrite(log, first, change)
  local times, totals, before, sum = {}, {}, log.base, 0
  for i = 1, #log.times do
    local cost = (log.totals[i] - before) % 281474976710656
    before = log.totals[i]
    if first and i >= first then
      cost = change(log.times[i], cost)
    end
    if cost > 0 then
      sum = sum + cost
      times[#times + 1], totals[#totals + 1] = log.times[i], sum
    end
  end
  log.times, log.totals, log.base = times, totals, 0
end

local function log_refund(log, first, charged_at, given)
  log_rewrite(log, first, function(at, cost)
    if at == charged_at and cost >= given then
      return cost - given
    end
    return cost
  end)
end

local function log_grant(log, first, units)
  log_rewrite(log, first, function(_, cost)
    local given = math.min(cost, units)
    units = units - given
    return cost - given
  end)
end
