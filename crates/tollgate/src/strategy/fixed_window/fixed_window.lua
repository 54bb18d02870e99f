-- The twin of fixed_window/mod.rs. State: the start of the window, and the units admitted in it.
-- Numbers: the units, the period, and 1 where a window starts at its first hit, 0 at the epoch.

-- Where the window that a charge at this time opens or joins begins.
local function fixed_start(us, period, first_hit)
  if first_hit == 1 then
    return us
  end
  return us - us % period
end

local function fixed_view(start, count, now, units, period, first_hit)
  local at, back = now, false
  if count == 0 or now >= start + period then
    start, count = fixed_start(now, period, first_hit), 0
  elseif start > now then
    if start - now <= 1000000 then
      at = start
    else
      start, back = fixed_start(now, period, first_hit), true
    end
  end
  return start, count, at, back
end

local function fixed_judge(start, count, at, now, cost, units, period)
  local remaining = math.max(0, units - count)
  local reset = start + period - now
  local wait = 0
  if cost > units then
    wait = -1
  elseif count + cost > units then
    wait = reset
  end
  if count == 0 then
    reset = 0
  end
  return remaining, wait, reset
end

local function fixed_charge(start, count, at, now, cost, units, period)
  return start, count + cost, start + period - now
end

-- cold

local function fixed_numbers(...)
  return ...
end

local function fixed_refund(start, count, at, now, charged_at, left, given, units, period)
  if charged_at < start or charged_at >= start + period then
    return start, count
  end
  return start, math.max(0, count - given)
end

local function fixed_grant(start, count, at, now, units)
  return start, math.max(0, count - units)
end

local function fixed_migrate(start, count, now, was, units, period, first_hit)
  if was[2] == period and was[3] == first_hit then
    -- A window that has ended counts again where the clock steps back.
    if count == 0 then
      return was.words[1], was.words[2]
    end
    return start, count
  end
  -- The old start counts as now where it lies ahead: that is skew.
  return fixed_start(math.max(start, now), period, first_hit), count
end
