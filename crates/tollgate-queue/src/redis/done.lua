-- These are done: nonce, ids.
local was = call('HMGET', meta, 'form', 'all', 'done', 'window', 'left', 'before')
local other = other_form(was[1])
if other then
  return other
end
local ids = {unpack(ARGV, 2, #ARGV - $TAIL)}
if put_down(ids) < #ids then
  -- Not all of them are out, or some are said twice, or the group is a new one.
  local found, scores = {}, call('ZMSCORE', out, unpack(ids))
  for place, score in ipairs(scores) do
    local id = ids[place]
    if score and not found[id] then
      found[#found + 1], found[id] = id, true
    end
  end
  ids = {unpack(found)}
end
if #ids > 0 then
  forget(ids)
  erase(ids)
  local notes = {'done', tonumber(was[3] or 0) + #ids}
  if was[2] == '1' then
    note_left(notes, #ids, clock(), was[4], was[5], was[6])
  end
  call('HSET', meta, unpack(notes))
end
return {nonce, #ids}
