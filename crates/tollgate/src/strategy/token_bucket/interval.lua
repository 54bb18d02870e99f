-- The twin of token_bucket/interval.rs: whole refills. State: the multiple of the period at which
-- it was last brought up to date, and the missing units. Numbers: units at each multiple of the
-- period, up to the burst; the maximum of the missing units.

local function interval_view(refilled, missing, now, units, period)
  local current, at, back = now - now % period, now, false
  if missing == 0 then
    refilled = current
  elseif refilled <= now then
    missing = math.max(0, missing - (current - refilled) / period * units)
    refilled = current
  elseif refilled - now > 1000000 then
    refilled, back = current, true
  else
    at = refilled
  end
  return refilled, missing, at, back
end

-- The wait until so many tokens have come.
local function interval_wait(refilled, now, tokens, units, period)
  if tokens == 0 then
    return 0
  end
  return refilled + math.ceil(tokens / units) * period - now
end

local function interval_judge(refilled, missing, at, now, cost, units, period, burst)
  local remaining = math.max(0, burst - missing)
  local wait = 0
  if cost > burst then
    wait = -1
  elseif missing + cost > burst then
    wait = interval_wait(refilled, now, missing + cost - burst, units, period)
  end
  return remaining, wait, interval_wait(refilled, now, missing, units, period)
end

local function interval_charge(refilled, missing, at, now, cost, units, period)
  missing = missing + cost
  return refilled, missing, interval_wait(refilled, now, missing, units, period)
end

-- Whether more is missing than the burst. Units that have come since then are not counted.
local function interval_owes(refilled, missing, now, units, period, burst)
  return missing > burst
end

-- cold

local function interval_numbers(...)
  return ...
end

local function interval_refund(refilled, missing, at, now, charged_at, left, given, units, period)
  if charged_at - charged_at % period ~= refilled then
    return refilled, missing
  end
  return refilled, math.max(0, missing - given)
end

local function interval_grant(refilled, missing, at, now, units)
  return refilled, math.max(0, missing - units)
end

local function interval_migrate(refilled, missing, now, was, units, period, burst, most)
  if was[2] == period then
    return refilled, math.min(missing, most)
  end
end
