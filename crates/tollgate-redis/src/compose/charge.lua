-- KEYS: the state, and a log for each limit.
-- ARGV: the nonce, the cost, what the limits are, 1 when they have a state beside their logs, and
-- for each limit the most units that can be used.
local cost, reply = tonumber(ARGV[2]), {ARGV[1]}
return change(ARGV[3], ARGV[4] == '1', reply, function(limit, i)
  local before = judge(limit)
  local taken = math.min(cost, room(limit, tonumber(ARGV[4 + i])))
  if taken > 0 then
    charge(limit, taken)
  end
  local left, reset, _, _, _, _, _, wait = judge(limit, cost)
  local fits = cost <= before and 1 or 0
  for _, number in ipairs({fits, cost - taken, left, wait, reset}) do
    reply[#reply + 1] = number
  end
end)
