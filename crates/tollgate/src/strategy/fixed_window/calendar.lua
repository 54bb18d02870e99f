-- The twin of fixed_window/mod.rs with a calendar. State: the window, and the units admitted in it.
-- A window is its start in seconds times 2^20, and its length in minutes. Numbers: the units, the
-- least length of a window, a number for the zone and the edge, and four edges in seconds.

-- When a window begins and when it ends, in microseconds.
local function calendar_span(window)
  local minutes = window % 1048576
  local start = (window - minutes) / 1048576
  return start * 1000000, (start + 60 * minutes) * 1000000
end

-- The window that holds this time, from `least` on. Beyond the edges windows are as long as the
-- outermost: only ends of holds lie there.
local function calendar_window(us, least, a, b, c, d)
  local start, stop = b, c
  local s = us / 1000000
  if s >= d then
    local more = d - c + math.floor((s - d) / (d - c)) * (d - c)
    start, stop = c + more, d + more
  elseif s >= c then
    start, stop = c, d
  elseif s < a then
    local more = math.ceil((a - s) / (b - a)) * (b - a)
    start, stop = a - more, b - more
  elseif s < b then
    start, stop = a, b
  end
  start = math.max(0, start, least / 1000000)
  return start * 1048576 + math.max(0, math.ceil((stop - start) / 60))
end

local function calendar_view(window, count, now, units, period, place, a, b, c, d)
  local at, back = now, false
  local start, stop = calendar_span(window)
  if now >= stop then
    -- Under another version of the time zones the next window may have begun before.
    window, count = calendar_window(now, stop, a, b, c, d), 0
  elseif count == 0 then
    window = calendar_window(now, 0, a, b, c, d)
  elseif start > now then
    if start - now <= 1000000 then
      at = start
    else
      window, back = calendar_window(now, 0, a, b, c, d), true
    end
  end
  return window, count, at, back
end

local function calendar_judge(window, count, at, now, cost, units)
  local remaining = math.max(0, units - count)
  local _, stop = calendar_span(window)
  local reset = stop - now
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

local function calendar_charge(window, count, at, now, cost, units)
  local _, stop = calendar_span(window)
  return window, count + cost, stop - now
end

-- cold

local function calendar_numbers(...)
  return ...
end

local function calendar_refund(window, count, at, now, charged_at, left, given, units)
  local start, stop = calendar_span(window)
  if charged_at < start or charged_at >= stop then
    return window, count
  end
  return window, math.max(0, count - given)
end

local function calendar_grant(window, count, at, now, units)
  return window, math.max(0, count - units)
end

local function calendar_migrate(window, count, now, was, units, period, place, a, b, c, d)
  local start = calendar_span(window)
  return calendar_window(math.max(start, now), 0, a, b, c, d), count
end
