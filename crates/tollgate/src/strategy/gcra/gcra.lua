-- The twin of gcra/mod.rs: the greedy step of gcra, uniform and token_bucket.
-- State: when everything charged has come back, in whole microseconds and a numerator below d.
-- Numbers: n/d microseconds for one unit in lowest terms; the burst; the most units that can be
-- used. Derived: the whole part and the numerator's rest of n/d, the backlog at which nothing is
-- left, and the longest one.

local function greedy_view(tat, num, now, n, d, burst, most, whole, part, full, full_num, longest,
    longest_num)
  local backlog, back = tat - now, false
  if backlog < 0 then
    tat, num = now, 0
  elseif backlog > longest or backlog == longest and num > longest_num then
    tat, num, back = now + longest, longest_num, true
  end
  return tat, num, now, back
end

local function greedy_judge(tat, num, at, now, cost, n, d, burst, most, whole, part, full, full_num)
  local backlog = tat - now
  local free, free_num = full - backlog, full_num - num
  if free_num < 0 then
    free, free_num = free - 1, free_num + d
  end
  -- An estimate that is right or one too many.
  local units = (free + free_num / d) * d / n + 0.001
  units = units - units % 1
  local us_num = units * part % d
  local us = units * whole + (units * part - us_num) / d
  if us > free or us == free and us_num > free_num then
    units = units - 1
  end
  local wait = 0
  if cost > units then
    if cost > burst then
      wait = -1
    else
      us_num = cost * part % d
      us = cost * whole + (cost * part - us_num) / d
      wait = backlog + us - full
      us_num = num + us_num - full_num
      if us_num > 0 then
        wait = wait + 1
      end
      if us_num > d then
        wait = wait + 1
      end
    end
  end
  -- More is used than the burst.
  if units < 0 then
    units = 0
  end
  if num > 0 then
    backlog = backlog + 1
  end
  return units, wait, backlog
end

local function greedy_charge(tat, num, at, now, cost, n, d, burst, most, whole, part)
  local us_num = cost * part % d
  local us = cost * whole + (cost * part - us_num) / d
  tat, num = tat + us, num + us_num
  if num >= d then
    tat, num = tat + 1, num - d
  end
  local reset = tat - now
  if num > 0 then
    reset = reset + 1
  end
  return tat, num, reset
end

-- Whether more is used than the burst.
local function greedy_owes(tat, num, now, n, d, burst, most, whole, part, full, full_num)
  local backlog = tat - now
  return backlog > full or backlog == full and num > full_num
end

-- cold

-- The time of so many units.
local function greedy_times(units, d, whole, part)
  local num = units * part % d
  return units * whole + (units * part - num) / d, num
end

local function greedy_numbers(n, d, burst, most)
  local part = n % d
  local whole = (n - part) / d
  local full, full_num = greedy_times(burst, d, whole, part)
  return n, d, burst, most, whole, part, full, full_num, greedy_times(most, d, whole, part)
end

-- The backlog without so much of it.
local function greedy_less(tat, num, now, us, us_num, d)
  tat, num = tat - us, num - us_num
  if num < 0 then
    tat, num = tat - 1, num + d
  end
  if tat < now then
    return now, 0
  end
  return tat, num
end

local function greedy_refund(tat, num, at, now, charged_at, left, units, n, d, burst, most, whole,
    part)
  if charged_at > now + 1000000 then
    return tat, num
  end
  local counts = math.min(left, most)
  local us, us_num = greedy_times(counts, d, whole, part)
  -- Units that came back meanwhile are those that are given back last.
  us = us - math.max(0, now - charged_at)
  if us < 0 then
    return tat, num
  end
  local part_us, part_num = greedy_times(counts - math.min(left - units, most), d, whole, part)
  if part_us < us or part_us == us and part_num < us_num then
    us, us_num = part_us, part_num
  end
  return greedy_less(tat, num, now, us, us_num, d)
end

local function greedy_grant(tat, num, at, now, units, n, d, burst, most, whole, part)
  local us, us_num = greedy_times(math.min(units, most), d, whole, part)
  return greedy_less(tat, num, now, us, us_num, d)
end

-- A state under the old numbers, as these numbers count it; one without a backlog is a fresh state.
local function greedy_migrate(tat, num, now, was, n, d, burst, most, whole, part)
  if was[1] ~= n or was[2] ~= d then
    -- Judged under a full backlog as large as the backlog itself, the free units are its whole
    -- units.
    local old_n, old_d, old_burst, old_most, old_whole, old_part = greedy_numbers(unpack(was))
    local units = greedy_judge(now, 0, now, now, 0, old_n, old_d, old_burst, old_most, old_whole,
      old_part, tat - now, num)
    local us, us_num = greedy_times(units, old_d, old_whole, old_part)
    tat, num = greedy_less(tat, num, now, us, us_num, old_d)
    -- The part of a unit that is left, as the same part of a new one.
    local scaled, over = mul_div((tat - now) * old_d + num, n, old_n)
    if over > 0 then
      scaled = scaled + 1
    end
    us, num = greedy_times(math.min(units, most), d, whole, part)
    tat = now + us + math.ceil(scaled / d)
  end
  if tat == now and num == 0 then
    return 0, 0
  end
  return tat, num
end
