-- KEYS: the state, and a log for each limit.
-- ARGV: the nonce, the units to give back or, negative, to take; and from the third on, the count.
local delta, reply = tonumber(ARGV[2]), {ARGV[1]}
return change(3, reply, function(limit)
  local before, reset = judge(limit)
  if delta < 0 and before > 0 then
    charge(limit, math.min(-delta, before))
  elseif delta > 0 and reset > 0 then
    grant(limit, delta)
    settle(limit)
  end
  reply[#reply + 1] = judge(limit) - before
end)
