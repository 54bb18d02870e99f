-- What became of a delivery: nonce, settings or '', 'again', 'extend' or 'release', the id, which
-- delivery, us until it comes back, most deliveries, how many dead are kept, why.
local what, id, delivery = ARGV[3], ARGV[4], tonumber(ARGV[5])
if ARGV[2] ~= '' then
  local other = agree('working', ARGV[2])
  if other then
    return other
  end
end
local number, is_held, why = try(id)
if not is_held or number ~= delivery then
  return {nonce, 'lost'}
end
local mark = 'h'
if what == 'again' then
  why, mark = ARGV[9], '-'
  if number >= tonumber(ARGV[7]) then
    bury(id, number, why, tonumber(ARGV[8]))
    return {nonce, 'dead'}
  end
elseif what == 'release' then
  number, mark = number - 1, '-'
end
redis.call('HSET', tries, id, number .. mark .. why)
redis.call('ZADD', out, string.format('%.0f', now + tonumber(ARGV[6])), id)
return {nonce, 'kept'}
