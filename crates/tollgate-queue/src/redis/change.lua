-- Changes how the queue is offered to and worked on: nonce, settings or '', 1 for a bound of all,
-- settings or '', how many of the done are kept.
local other = other_form(call('HGET', meta, 'form'))
if other then
  return other
end
typed(math.min(LAST, #KEYS))
if ARGV[2] ~= '' or ARGV[4] ~= '' then
  bear()
end
if ARGV[2] ~= '' then
  call('HSET', meta, 'form', FORM, 'offering', ARGV[2], 'all', ARGV[3])
end
if ARGV[4] ~= '' then
  call('HSET', meta, 'form', FORM, 'working', ARGV[4], 'keep', ARGV[5])
  keep_last(tonumber(ARGV[5]))
end
return {nonce}
