-- The twin of ban/mod.rs.
-- State: the end of the last ban, or the first denial that is counted since; the denials times 64
-- and the bans that are remembered.
-- Numbers: so many denials, within so many microseconds; the first and the longest ban. Derived: the
-- number of bans after which each is the longest.

local function ban_length(bans, first, longest, growing)
  return bans >= growing and longest or first * 2 ^ bans
end

-- When nothing is remembered any more.
local function ban_forgotten(at, counted, within, longest)
  if counted == 0 then
    return at
  elseif counted % 64 == 0 then
    return at + within
  end
  return at + math.max(longest, within)
end

local function ban_view(at, counted, now, denials, within, first, longest, growing)
  if ban_forgotten(at, counted, within, longest) <= now then
    return 0, 0, now, false
  end
  if counted >= 64 then
    if at > now + 1000000 then
      return now, counted, now, true
    end
  else
    local right = now + ban_length(math.max(counted - 1, 0), first, longest, growing)
    if at > right then
      return right, counted, now, true
    end
  end
  return at, counted, now, false
end

local function ban_reset(at, counted, now, within, longest)
  return math.max(0, ban_forgotten(at, counted, within, longest) - now)
end

local function ban_judge(at, counted, _, now, cost, denials, within, first, longest)
  local reset = ban_reset(at, counted, now, within, longest)
  if counted < 64 and at > now then
    return 0, at - now, reset
  end
  return 1099511627776, 0, reset
end

-- Counts a denial.
local function ban_deny(at, counted, now, denials, within, first, longest, growing)
  local bans = counted % 64
  local sum = (counted - bans) / 64
  if sum == 0 or now >= at + within then
    at, sum = now, 1
  else
    sum = sum + 1
  end
  if sum < denials then
    return at, sum * 64 + bans
  end
  local most = growing == 0 and 0 or growing + 1
  return now + ban_length(bans, first, longest, growing), math.min(bans + 1, most)
end

-- cold

local function ban_numbers(denials, within, first, longest)
  local growing, length = 0, first
  while length < longest do
    growing, length = growing + 1, length * 2
  end
  return denials, within, first, longest, growing
end

local function ban_migrate(at, counted, now, old, denials, within, first, longest, growing)
  local bans = counted % 64
  local was = (counted - bans) / 64
  local sum = math.min(was, denials - 1)
  -- Denials that are no longer counted have no time that could be that of a ban.
  if sum < was then
    at = math.min(at, now)
  end
  bans = math.min(bans, growing == 0 and 0 or growing + 1)
  at, counted = ban_view(at, sum * 64 + bans, now, denials, within, first, longest, growing)
  return at, counted
end
