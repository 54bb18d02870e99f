-- KEYS: the state.
-- ARGV: the nonce, the units to give back or, negative, to take; and from the third on, the count.
-- The units are a number of requests, or an amount of each unit.
local deltas, reply = unit.amounts(ARGV[2]), {ARGV[1]}
return change(3, reply, function(limit, _, count)
  local delta = deltas[limit.unit or 'requests'] or 0
  -- Units that are held beside it cannot be taken.
  local kept = kept_of(count, limit)
  local remaining, reset = judge(limit)
  local before = math.max(0, remaining - kept)
  if delta < 0 and before > 0 then
    charge(limit, math.min(-delta, before))
  elseif delta > 0 and reset > 0 then
    grant(limit, delta)
    settle(limit)
  end
  reply[#reply + 1] = math.max(0, judge(limit) - kept) - before
end)
