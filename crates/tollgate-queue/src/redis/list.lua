-- The shelf of a queue whose jobs lie in a list:
-- waiting  those that were never delivered: `ID FIELDS`, where the fields are one word that no
--          script looks into
-- bodies   of each that is out, who has it or had it last, and its fields: `5:wendy,FIELDS`
-- The ids are made here: `ms` and `number` of `meta` are those of the last.
-- done     those that were done and are kept: the id, how often it was delivered, the fields
local done, bodies, dead, graves = KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local FORM, LAST = 'list', 11
local last_ms, last_number, were, ms_text = 0, 0, 0, nil

-- Fails where a key holds something else, before anything is written. `last` is the script's last key.
local function typed(last)
  call('LLEN', waiting)
  call('ZCARD', out)
  if last > 3 and call('EXISTS', unpack(KEYS, 4, last)) > 0 then
    for place = 4, math.min(last, 7) do
      call('HLEN', KEYS[place])
    end
    if last >= 9 then
      call('LLEN', done)
      call('HLEN', bodies)
    end
    if last >= 11 then
      call('LLEN', dead)
      call('HLEN', graves)
    end
  end
end

-- What is known of the job that was put last, from what `meta` has of the queue.
local function known(was)
  last_ms, last_number = tonumber(was[6] or 0), tonumber(was[7] or 0)
  were, ms_text = tonumber(was[8] or 0), nil
end

-- How many could be delivered, at most this many.
local function undelivered(many)
  return math.min(many, depth(false))
end

-- Adds a job of this word of ARGV, by this way to call a command.
local function put(by, from)
  local ms = math.floor(clock() / 1000)
  if ms > last_ms then
    last_ms, last_number, ms_text = ms, 0, nil
  else
    last_number = last_number + 1
  end
  ms_text = ms_text or string.format('%.0f', last_ms)
  local id = string.format('%s-%.0f', ms_text, last_number)
  local is = by('RPUSH', waiting, id .. ' ' .. ARGV[from])
  if type(is) == 'table' then
    return is
  end
  were = were + 1
  return id
end

-- Says what was put.
local function put_last()
  call('HSET', meta, 'ms', ms_text, 'number', last_number, 'accepted', were)
end

-- A list has no group.
local function share()
end

-- Whether all that follows the first job may be called.
local function may_say()
  local is_there, is_so = pcall(redis.acl_check_cmd, 'HSET', meta, meta)
  return is_there and is_so
end

-- How many were added, ever.
local function accepted()
  return tonumber(call('HGET', meta, 'accepted') or 0)
end

-- Whether a number is written as in ids, and none that is too large for one.
local function is_of_id(text)
  if #text > 20 or #text > 1 and string.sub(text, 1, 1) == '0' then
    return false
  end
  return #text < 20 or text <= '18446744073709551615'
end

-- The id and the fields of one that waits. None where somebody else has put it there otherwise than
-- an offer does: all that look at ids could not read this one, or would call it another.
local function read(is)
  local ms, number, fields = string.match(is, '^(%d+)%-(%d+) (.*)$')
  if ms and is_of_id(ms) and is_of_id(number) then
    return ms .. '-' .. number, fields
  end
end

-- The id of the first that was never delivered.
local function first()
  local is = call('LINDEX', waiting, 0)
  return is and read(is)
end

-- Adds the first this many of those that were never delivered to an answer.
local function show(many, answer)
  for _, is in ipairs(call('LRANGE', waiting, 0, many - 1)) do
    local id, fields = read(is)
    answer[#answer + 1] = {id or '0-0', fields or is}
  end
end

-- Looks at this many more of those that were never delivered, from `place` on, and drops those that
-- are too old. How many it looked at and how many it left, and where to go on.
local function sift(many, place, is_too_old)
  place = place or 0
  local found = call('LRANGE', waiting, place, place + many - 1)
  local dropped = 0
  for nth, is in ipairs(found) do
    local id = string.match(is, '^%S*')
    if is_too_old(id) then
      call('LSET', waiting, place + nth - 1, '')
      call('HDEL', untils, id)
      dropped = dropped + 1
    end
  end
  if dropped > 0 then
    call('LREM', waiting, dropped, '')
  end
  local left = #found - dropped
  return #found, left, place + left
end

-- An id for what somebody else has put there without one: as of a job that is put now.
local function name()
  local was = call('HMGET', meta, 'ms', 'number')
  local ms, number = math.floor(clock() / 1000), 0
  if ms <= tonumber(was[1] or 0) then
    ms, number = tonumber(was[1]), tonumber(was[2]) + 1
  end
  local text = string.format('%.0f', ms)
  call('HSET', meta, 'ms', text, 'number', number)
  return string.format('%s-%.0f', text, number)
end

-- Delivers the first this many that never were: ids and fields.
local function deliver(worker, many)
  local entries, taken = {}, {}
  local by = #worker .. ':' .. worker .. ','
  for place, is in ipairs(call('LPOP', waiting, many) or {}) do
    local id, fields = read(is)
    if not id then
      id, fields = name(), is
    end
    entries[place] = {id, fields}
    taken[2 * place - 1] = id
    taken[2 * place] = by .. fields
  end
  if #taken > 0 then
    call('HSET', bodies, unpack(taken))
  end
  return entries
end

-- Entries that something else takes from a list are gone from it.
local function adopt()
  return {}, true
end

-- The fields of one that is out.
local function body(id)
  local is = call('HGET', bodies, id)
  local length = is and string.match(is, '^%d+')
  return is and string.sub(is, #length + length + 3)
end

-- Delivers one that is out again: its fields; nil when somebody has removed it.
local function redeliver(worker, id)
  local fields = body(id)
  if fields then
    call('HSET', bodies, id, #worker .. ':' .. worker .. ',' .. fields)
  end
  return fields
end

-- They are out no more: how many of them were.
local function put_down(ids)
  return call('HDEL', bodies, unpack(ids))
end

-- Removes those that are out no more: they lie nowhere then.
local function erase()
end

-- Keeps one that is done, while its fields are there still.
local function keep_done(id, number)
  local fields = body(id)
  if fields then
    call('RPUSH', done, string.format('%s %.0f %s', id, number, fields))
  end
end

-- Keeps no more than this many of the done.
local function keep_last(keep)
  if keep == 0 then
    call('DEL', done)
  else
    call('LTRIM', done, -keep, -1)
  end
end

-- This many of the done, the oldest first.
local function kept(many)
  local answer = {nonce}
  for _, is in ipairs(many > 0 and call('LRANGE', done, 0, many - 1) or {}) do
    local id, number, fields = string.match(is, '^(%S+) (%d+) (.*)$')
    answer[#answer + 1] = {id, tonumber(number), fields}
  end
  return answer
end
