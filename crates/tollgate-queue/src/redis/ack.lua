-- These are done: nonce, ids.
local was = call('HMGET', meta, 'form', 'all', 'done', 'window', 'left', 'before', 'keep')
local other = other_form(was[1])
if other then
  return other
end
typed(LAST - 2)
local ids = {unpack(ARGV, 2, #ARGV - $TAIL)}

-- Those of them that are out, each once.
local function those_out()
  local found, scores = {}, call('ZMSCORE', out, unpack(ids))
  for place, score in ipairs(scores) do
    local id = ids[place]
    if score and not found[id] then
      found[#found + 1], found[id] = id, true
    end
  end
  return {unpack(found)}
end

local keep = tonumber(was[7] or 0)
if keep > 0 then
  ids = those_out()
  for _, id in ipairs(ids) do
    keep_done(id, try(id))
  end
  if #ids > 0 then
    keep_last(keep)
    put_down(ids)
  end
elseif put_down(ids) < #ids then
  -- Not all of them are out, or some are named twice, or the group is a new one.
  ids = those_out()
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
