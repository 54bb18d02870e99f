-- The common functions of a queue's scripts. All keys have one hash tag. Where the jobs lie is up
-- to the shelf (`stream.lua`, `list.lua`), which names the keys; beside it there are: out      of
-- each job that is out, when it comes back, in microseconds meta     the form, the settings, what
-- there was, and the rate at which jobs leave untils   of each that has a deadline, when it is too
-- old clients  of each that has a client: `w` where it waits or `o` where it is out, and the
-- client; and of each such word how many there are, which no id can be taken for: those begin with
-- a digit onces    of each that is remembered: which job was accepted once, and under what; it is
-- this one, or the one that it was before it was dead tries    of each that is out: how often it
-- was delivered, `h` while it is held, why it failed; nothing for one that is held for the first
-- time dead     the ids of dead jobs, the oldest first graves   the dead jobs
--
-- A script has those of these functions that it calls: each is a paragraph.

-- The answer to who asks for the queue in another form than it was made in.
local function other_form(form)
  return form and form ~= FORM and {nonce, 'form', form} or nil
end

-- By which call the queue was made. A remembered id lies beside it and names that call, so that it
-- is not known to a queue of the same name that is made after this one was removed.
local function born()
  return call('HGET', meta, 'born') or ''
end

local function bear()
  call('HSETNX', meta, 'born', nonce)
end

-- The window of ten seconds at work, how many left in it and in the one before; from what `meta`
-- has of them.
local function drain(now, at, left, before)
  at, left, before = tonumber(at or 0), tonumber(left or 0), tonumber(before or 0)
  local window = math.floor(now / 10000000)
  if window > at then
    before = window == at + 1 and left or 0
    at, left = window, 0
  end
  return at, left, before
end

-- Microseconds until one more will probably have left; -1 where none has of late. From what `meta`
-- has of the queue: the settings of the first producer, which made it; the window of ten seconds, how
-- many left in it and in the one before; and whether somebody else holds what counts as waiting.
local function until_room(was)
  local now = clock()
  local _, left, before = drain(now, was[2], was[3], was[4])
  return left + before > 0 and math.ceil((10000000 + now % 10000000) / (left + before)) or -1
end

-- The fields of `meta` when this many more have left.
local function note_left(notes, count, now, was_at, was_left, was_before)
  local at, left, before = drain(now, was_at, was_left, was_before)
  notes[#notes + 1] = 'left'
  notes[#notes + 1] = left + count
  if at ~= tonumber(was_at) then
    notes[#notes + 1] = 'window'
    notes[#notes + 1] = at
    notes[#notes + 1] = 'before'
    notes[#notes + 1] = before
  end
end

local function count(what, by)
  if by > 0 then
    write('HINCRBY', meta, what, by)
  end
end

-- Says to who waits that there may be something to take. A caller without that right offers all the
-- same.
local function ring()
  redis.pcall('PUBLISH', string.sub(meta, 1, -5) .. 'wake', '')
end

-- Whether a worker may wait for a job to come, where so many did before it. It does not while there
-- is one that it could take.
local function may_wait(was, depth, all)
  return all or was[5] or depth <= 0
end

-- How often a job that is out was delivered, whether it is held, and why it failed last.
local function try(id)
  local is = call('HGET', tries, id)
  if not is then
    return 1, true, ''
  end
  local number, mark, why = string.match(is, '^(%d+)(.)(.*)$')
  return tonumber(number), mark == 'h', why
end

-- Those that come back by `last`, as many as are asked for: of each its id and when, in this order
-- and then in that of the ids; and whether there may be more.
local function by_due(many, last)
  local due = call('ZRANGE', out, '-inf', last, 'BYSCORE', 'LIMIT', 0, many, 'WITHSCORES')
  local is_cut = #due == 2 * many
  if is_cut then
    -- Those of the last time are cut in the order of their text, which is not that of their ids:
    -- all of them are looked at.
    local time = due[#due]
    while due[#due] == time do
      due[#due] = nil
      due[#due] = nil
    end
    for _, word in ipairs(call('ZRANGE', out, time, time, 'BYSCORE', 'WITHSCORES')) do
      due[#due + 1] = word
    end
  end
  local order = {}
  for place = 1, #due, 2 do
    local ms, number = string.match(due[place], '^(%d+)-(%d+)$')
    order[#order + 1] = {due[place], tonumber(due[place + 1]), tonumber(ms), tonumber(number)}
  end
  table.sort(order, function(a, b)
    for place = 2, 4 do
      if a[place] ~= b[place] then
        return a[place] < b[place]
      end
    end
    return false
  end)
  for place = #order, many + 1, -1 do
    order[place] = nil
  end
  return order, is_cut
end

-- Counts one more, or one less, of what `clients` calls so; nothing is kept of none.
local function of_client(word, by)
  if call('HINCRBY', clients, word, by) <= 0 then
    call('HDEL', clients, word)
  end
end

-- How many of a client wait; with those that are out, when `all`.
local function counted(client, all)
  local there = tonumber(call('HGET', clients, 'w' .. client) or 0)
  return all and there + tonumber(call('HGET', clients, 'o' .. client) or 0) or there
end

-- These have been delivered: they wait no more, and are out.
local function come_out(ids)
  if #ids == 0 or call('EXISTS', clients) == 0 then
    return
  end
  for place, word in ipairs(call('HMGET', clients, unpack(ids))) do
    if word and string.sub(word, 1, 1) == 'w' then
      local now = 'o' .. string.sub(word, 2)
      call('HSET', clients, ids[place], now)
      of_client(word, -1)
      of_client(now, 1)
    end
  end
end

-- These are gone, wherever they were.
local function leave_client(ids)
  if call('EXISTS', clients) == 0 then
    return
  end
  for place, word in ipairs(call('HMGET', clients, unpack(ids))) do
    if word then
      call('HDEL', clients, ids[place])
      of_client(word, -1)
    end
  end
end

-- The client of a job, or ''.
local function whose(id)
  return string.sub(call('HGET', clients, id) or '', 2)
end

-- Forgets what is known of jobs that were out, beside where they lie.
local function forget(ids)
  leave_client(ids)
  call('ZREM', out, unpack(ids))
  if call('EXISTS', tries, untils, onces) > 0 then
    call('HDEL', tries, unpack(ids))
    call('HDEL', untils, unpack(ids))
    call('HDEL', onces, unpack(ids))
  end
end

-- Removes a job that is out.
local function remove(id)
  put_down({id})
  forget({id})
  erase({id})
end

local function bury(id, number, why, keep)
  local fields, client, once = body(id), whose(id), call('HGET', onces, id) or ''
  remove(id)
  count('died', 1)
  if fields then
    call('RPUSH', dead, id)
    call('HSET', graves, id, cmsgpack.pack({number, why, fields, client, once}))
  end
  while call('LLEN', dead) > keep do
    call('HDEL', graves, call('LPOP', dead))
  end
end
