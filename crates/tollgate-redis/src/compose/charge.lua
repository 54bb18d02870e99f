-- KEYS: the state.
-- ARGV: the nonce, the cost, and from the third on, the count.
local cost, reply = tonumber(ARGV[2]), {ARGV[1]}
return change(3, reply, function(limit, i, count)
  local before = judge_beside(count, i, cost)
  local fits = cost <= before
  local cut = counts_units(limit) and charge_some(limit, cost, count.most[i], fits) or 0
  local left, wait, reset = judge_beside(count, i, cost)
  fits = (limit.step.counts == 'slots' or fits) and 1 or 0
  for _, number in ipairs({fits, cut, left, wait, reset_of(count, i, reset)}) do
    reply[#reply + 1] = number
  end
end)
