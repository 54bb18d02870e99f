-- The numbers that a state keeps of a limit, by the name of its step: as the library computes them.
local function greedy_of(n, d, burst)
  local a, b = n, d
  while b ~= 0 do
    a, b = b, a % b
  end
  local num, den, most = d / a, n / a, 1099511627776
  if den < num then
    -- How many come back within the longest wait, 2^51 microseconds.
    local whole, rest = mul_div(den, 281474976710656, num)
    most = math.min(most, whole * 8 + (rest * 8 - rest * 8 % num) / num)
  end
  if burst > most then
    refuse('a burst of this size would take over 71 years to come back')
  end
  if burst * den >= 9007199254740992 then
    refuse('so many in this time cannot be counted exactly')
  end
  most = math.min(most, (9007199254740991 - 9007199254740991 % den) / den)
  return {num, den, burst, math.max(math.min(most, 2 * burst), burst)}
end

local function interval_of(n, d, burst)
  if math.ceil(burst / n) * d > 2251799813685248 then
    refuse('a burst of this size would take over 71 years to come back')
  end
  local most = math.min(1099511627776, math.floor(2251799813685248 / d) * n)
  return {n, d, burst, math.max(math.min(most, 2 * burst), burst)}
end

local function fixed_of(n, d, first_hit)
  return {n, d, first_hit}
end

local function log_of(n, d)
  return {n, d}
end

local function window_of(n, d, buckets, rounding)
  if d % buckets ~= 0 then
    refuse('the time of this limit cannot be cut into ' .. buckets .. ' equal sub-buckets')
  end
  return {n, d / buckets, buckets, rounding}
end
