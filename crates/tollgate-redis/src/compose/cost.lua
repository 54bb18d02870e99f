local cost = 1
if ARGV[1] ~= '1' then
  cost = string.match(ARGV[1], '^[1-9]%d*$') and tonumber(ARGV[1])
  if not cost or cost > 1099511627776 then
    return redis.error_reply('TOLLGATE the cost must be a whole number from 1 to 2^40')
  end
end
