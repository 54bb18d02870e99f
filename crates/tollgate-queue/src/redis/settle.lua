-- The outcome of a delivery: nonce, settings or '', 'again', 'bury', 'extend' or 'release', the id,
-- which delivery, us until it comes back, maximum of deliveries, how many dead are kept, why.
local what, id, delivery = ARGV[3], ARGV[4], tonumber(ARGV[5])
local was = call('HMGET', meta, 'form', 'working', 'all', 'window', 'left', 'before')
local other = other_form(was[1])
if other then
  return other
end
if ARGV[2] ~= '' and was[2] and was[2] ~= ARGV[2] then
  return {nonce, 'settings', was[2]}
end
typed(LAST)
local number, is_held, why = try(id)
if not is_held or number ~= delivery or not call('ZSCORE', out, id) then
  return {nonce, 'lost'}
end
local now = clock()
local mark = 'h'
if what == 'again' or what == 'bury' then
  why, mark = ARGV[9], '-'
  if what == 'bury' or number >= tonumber(ARGV[7]) then
    bury(id, number, why, tonumber(ARGV[8]))
    if was[3] == '1' then
      local notes = {}
      note_left(notes, 1, now, was[4], was[5], was[6])
      call('HSET', meta, unpack(notes))
    end
    return {nonce, 'dead'}
  end
elseif what == 'release' then
  number, mark = number - 1, '-'
end
if what ~= 'extend' then
  call('HSET', tries, id, number .. mark .. why)
end
call('ZADD', out, string.format('%.0f', now + tonumber(ARGV[6])), id)
if what == 'release' then
  ring()
end
return {nonce, 'kept'}
