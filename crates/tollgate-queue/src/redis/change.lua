-- Changes how the queue is offered to and worked on: nonce, settings or '', 1 for a bound of all,
-- settings or ''.
local other = other_form(call('HGET', meta, 'form'))
if other then
  return other
end
if ARGV[2] ~= '' then
  call('HSET', meta, 'form', FORM, 'offering', ARGV[2], 'all', ARGV[3])
end
if ARGV[4] ~= '' then
  call('HSET', meta, 'form', FORM, 'working', ARGV[4])
end
return {nonce}
