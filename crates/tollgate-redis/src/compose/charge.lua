-- KEYS: the state.
-- ARGV: the nonce, the cost, and from the third on, the count. The cost is a number of requests, or
-- an amount of each unit.
local amounts, reply, rows = unit.amounts(ARGV[2]), {ARGV[1]}, nil
local first = amounts[string.match(ARGV[2], '^%l[%l%d_]*') or 'requests']
return change(3, reply, function(_, i, count)
  rows = rows or charge_beside(count, amounts, first)
  for _, number in ipairs(rows[i]) do
    reply[#reply + 1] = number
  end
end)
