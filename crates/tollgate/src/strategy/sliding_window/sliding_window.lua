-- The twin of sliding_window/mod.rs. State: a row: the index of the newest bucket with a cost, then
-- buckets + 1 counts; the count of bucket i lies at 2 + i % (buckets + 1), and counts before bucket
-- 0 are zero. Numbers: the units, the precision, the buckets, and the rounding: 0 conservative, 1
-- interpolate, 2 truncate.

-- The units of the straddling bucket that count, so long after the newest bucket began.
local function window_weight(straddling, into, precision, rounding)
  if rounding == 0 then
    return straddling
  end
  if rounding == 2 then
    return 0
  end
  local gone = mul_div(into, straddling, precision)
  return straddling - gone
end

-- The bucket of a time that is not before the newest, the units that count in full, and the
-- straddling bucket.
local function window_at(row, at, precision, buckets)
  local bucket = (at - at % precision) / precision
  local newest = row[1]
  if bucket > newest + buckets then
    return bucket, 0, 0
  end
  local inside, straddling = 0, 0
  for i = 2, buckets + 2 do
    inside = inside + row[i]
  end
  for left = newest - buckets, bucket - buckets do
    straddling = row[2 + left % (buckets + 1)]
    inside = inside - straddling
  end
  return bucket, inside, straddling
end

local function window_view(row, now, units, precision, buckets, rounding)
  local newest = row[1] * precision
  if newest <= now then
    local bucket, inside, straddling = window_at(row, now, precision, buckets)
    return bucket, inside, straddling, now, false
  end
  local bucket, inside, straddling = window_at(row, newest, precision, buckets)
  if newest - now <= 1000000 then
    return bucket, inside, straddling, newest, false
  end
  -- No bucket counts more than the largest limit has.
  inside = math.min(inside + window_weight(straddling, 0, precision, rounding), 1099511627776)
  return (now - now % precision) / precision, inside, 0, now, true
end

-- When a cost that is not admitted now first is, nothing else happening.
local function window_ready(row, bucket, inside, straddling, at, back, cost, units, precision,
    buckets, rounding)
  local view, all = bucket, inside
  while true do
    local start = bucket * precision
    local from = math.max(start, at)
    if inside + window_weight(straddling, from - start, precision, rounding) + cost <= units then
      return from
    end
    if rounding == 1 and inside + cost <= units then
      -- Within this bucket: enough of the straddling one has slid out.
      local slid, over = mul_div(inside + straddling + cost - units, precision, straddling)
      if over > 0 then
        slid = slid + 1
      end
      return start + slid
    end
    -- The next bucket begins: the oldest one inside becomes the straddling one.
    bucket = bucket + 1
    local oldest = bucket - buckets
    straddling = 0
    if back then
      if oldest == view then
        straddling = all
      end
    elseif oldest <= row[1] then
      straddling = row[2 + oldest % (buckets + 1)]
    end
    inside = inside - straddling
  end
end

-- The wait until nothing counts.
local function window_reset(newest, now, precision, buckets, rounding)
  local lifetime = buckets
  if rounding ~= 2 then
    lifetime = lifetime + 1
  end
  return (newest + lifetime) * precision - now
end

local function window_judge(row, bucket, inside, straddling, at, back, now, cost, units, precision,
    buckets, rounding)
  local into = at - bucket * precision
  local used = inside + window_weight(straddling, into, precision, rounding)
  local remaining = math.max(0, units - used)
  local wait = 0
  if cost > units then
    wait = -1
  elseif used + cost > units then
    wait = window_ready(row, bucket, inside, straddling, at, back, cost, units, precision,
      buckets, rounding) - now
  end
  local reset = 0
  if inside > 0 or rounding ~= 2 and straddling > 0 then
    local newest = row[1]
    if back then
      newest = bucket
    end
    reset = window_reset(newest, now, precision, buckets, rounding)
  end
  return remaining, wait, reset
end

-- A row that counts so much in one bucket.
local function window_restart(row, bucket, count, buckets)
  for i = 1, buckets + 2 do
    row[i] = 0
  end
  if count > 0 then
    row[1] = bucket
    row[2 + bucket % (buckets + 1)] = count
  end
end

-- Writes down what a clock that stepped back left.
local function window_repair(row, bucket, inside, units, precision, buckets)
  window_restart(row, bucket, inside, buckets)
end

local function window_charge(row, bucket, inside, straddling, at, back, now, cost, units, precision,
    buckets, rounding)
  if back then
    window_restart(row, bucket, inside, buckets)
  end
  -- Buckets that have left are forgotten.
  local newest = row[1]
  if bucket > newest then
    for passed = math.max(newest + 1, bucket - buckets), bucket do
      row[2 + passed % (buckets + 1)] = 0
    end
    row[1] = bucket
  end
  local slot = 2 + bucket % (buckets + 1)
  row[slot] = row[slot] + cost
  return window_reset(bucket, now, precision, buckets, rounding)
end

-- cold

local function window_numbers(...)
  return ...
end

-- The oldest bucket that counts while this one is the newest.
local function window_oldest(bucket, buckets, rounding)
  if rounding == 2 then
    return bucket + 1 - buckets
  end
  return bucket - buckets
end

-- Makes the newest bucket with a cost the newest again, after counts were taken away.
local function window_settle(row, buckets)
  for bucket = row[1], row[1] - buckets, -1 do
    if row[2 + bucket % (buckets + 1)] > 0 then
      row[1] = bucket
      return
    end
  end
end

-- Takes from a bucket that is held, and says how much.
local function window_take(row, bucket, units, buckets)
  local slot = 2 + bucket % (buckets + 1)
  local taken = math.min(row[slot], units)
  row[slot] = row[slot] - taken
  return taken
end

local function window_refund(row, current, charged_at, cost, units, precision, buckets, rounding)
  local bucket = (charged_at - charged_at % precision) / precision
  local oldest = math.max(window_oldest(current, buckets, rounding), row[1] - buckets)
  if bucket >= oldest and bucket <= row[1] then
    window_take(row, bucket, cost, buckets)
    window_settle(row, buckets)
  end
end

local function window_grant(row, current, given, units, precision, buckets, rounding)
  local oldest = math.max(window_oldest(current, buckets, rounding), row[1] - buckets)
  for bucket = oldest, row[1] do
    given = given - window_take(row, bucket, given, buckets)
  end
  window_settle(row, buckets)
end

-- A row under the old numbers, as these numbers count it.
local function window_migrate(row, now, was, units, precision, buckets, rounding)
  local bucket, inside, straddling, at, back = window_view(row, now, unpack(was))
  if was[2] == precision and was[3] == buckets and not back then
    return row
  end
  local into = at - bucket * was[2]
  -- No bucket counts more than the largest limit has.
  local used = math.min(inside + window_weight(straddling, into, was[2], was[4]), 1099511627776)
  local new = {}
  window_restart(new, (at - at % precision) / precision, used, buckets)
  return new
end
