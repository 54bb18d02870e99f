-- KEYS: the state.
-- ARGV: the nonce, the cost, and from the third on, the count. The cost is a number of requests, or
-- an amount of each unit.
local amounts, reply = unit.amounts(ARGV[2]), {ARGV[1]}
local first = amounts[string.match(ARGV[2], '^%l[%l%d_]*') or 'requests']
return change(3, reply, function(limit, i, count)
  local cost, is_plain = unit.part(count, limit, amounts, first)
  local before, owed = judge_beside(count, i, cost)
  local fits = cost > 0 and cost <= before or cost == 0 and owed == 0
  local cut = counts_units(limit) and charge_some(limit, cost, count.most[i], fits) or 0
  local left, wait, reset = judge_beside(count, i, cost)
  fits = (fits or is_plain and limit.step.counts == 'slots') and 1 or 0
  for _, number in ipairs({fits, cut, left, wait, reset_of(count, i, reset)}) do
    reply[#reply + 1] = number
  end
end)
