-- The shelf of a queue whose jobs lie in a stream:
-- jobs     those that wait and those that are out; its group `workers` has delivered the latter
-- done     those that were done and are kept: their fields after `@id` and `@deliveries`
local done, dead, graves = KEYS[8], KEYS[9], KEYS[10]
local FORM, LAST = 'stream', 10

-- Fails where a key holds something else, before anything is written. `last` is the script's last key.
local function typed(last)
  call('XLEN', jobs)
  call('ZCARD', out)
  if last > 3 and call('EXISTS', unpack(KEYS, 4, last)) > 0 then
    for place = 4, math.min(last, 7) do
      call('HLEN', KEYS[place])
    end
    if last >= 8 then
      call('XLEN', done)
    end
    if last >= 10 then
      call('LLEN', dead)
      call('HLEN', graves)
    end
  end
end

-- What is known of the job that was put last: the stream knows it.
local function known()
end

-- How many could be delivered, at most this many: jobs that somebody else holds count as waiting,
-- and cannot be delivered.
local function undelivered(many)
  local there = math.min(many, depth(false))
  local pending = redis.pcall('XPENDING', jobs, 'workers')
  if there <= 0 or pending.err or pending[1] <= call('ZCARD', out) then
    return there
  end
  local last
  for _, group in ipairs(call('XINFO', 'GROUPS', jobs)) do
    local is = {}
    for place = 1, #group, 2 do
      is[group[place]] = group[place + 1]
    end
    last = is.name == 'workers' and is['last-delivered-id'] or last
  end
  return #call('XRANGE', jobs, '(' .. last, '+', 'COUNT', there)
end

-- The next id where a test says what time it is.
local function given_id()
  local ms = math.floor(clock() / 1000)
  local info = redis.pcall('XINFO', 'STREAM', jobs)
  for place = 1, #info, 2 do
    if info[place] == 'last-generated-id' then
      ms = math.max(ms, tonumber(string.match(info[place + 1], '^%d+')))
    end
  end
  return string.format('%.0f-*', ms)
end

-- Adds a job of these words of ARGV, by this way to call a command. The server makes ids that grow
-- also when its clock goes back.
local function put(by, from, to)
  return by('XADD', jobs, $ID, unpack(ARGV, from, to))
end

local function put_last()
end

-- Makes the group with the queue, so that workers of other programs find it. The command is not among
-- those that an offer needs: without that right it is made by the first take.
local function share()
  local command = 'XGROUP'
  redis.pcall(command, 'CREATE', jobs, 'workers', '0', 'MKSTREAM')
end

-- Whether all that follows the first job may be called: nothing does.
local function may_say()
  return true
end

-- How many were added, ever.
local function accepted()
  local info = redis.pcall('XINFO', 'STREAM', jobs)
  for place = 1, #info, 2 do
    if info[place] == 'entries-added' then
      return info[place + 1]
    end
  end
  return 0
end

-- The id of the first that was never delivered.
local function first()
  local from = '(' .. (call('HGET', meta, 'last') or '0-0')
  local entry = call('XRANGE', jobs, from, '+', 'COUNT', '1')[1]
  return entry and entry[1]
end

-- Adds the first this many of those that were never delivered to an answer.
local function show(many, answer)
  local from = '(' .. (call('HGET', meta, 'last') or '0-0')
  for _, entry in ipairs(call('XRANGE', jobs, from, '+', 'COUNT', many)) do
    answer[#answer + 1] = entry
  end
end

-- Looks at this many more of those that were never delivered, from `place` on, and drops those that
-- are too old. How many it looked at and how many it left, and where to go on.
local function sift(many, place, is_too_old)
  local from = place or call('HGET', meta, 'last') or '0-0'
  local entries = call('XRANGE', jobs, '(' .. from, '+', 'COUNT', many)
  local left = 0
  for _, entry in ipairs(entries) do
    from = entry[1]
    if is_too_old(from) then
      call('XDEL', jobs, from)
      call('HDEL', untils, from)
    else
      left = left + 1
    end
  end
  return #entries, left, from
end

-- Asks the group, which is made when it is not there.
local function grouped(...)
  local is = redis.pcall(...)
  if is and is.err and string.find(is.err, 'NOGROUP', 1, true) then
    local last = call('HGET', meta, 'last') or '0'
    call('XGROUP', 'CREATE', jobs, 'workers', last, 'MKSTREAM')
    is = redis.pcall(...)
  end
  if is and is.err then
    error(is)
  end
  return is
end

-- Delivers the first this many that never were: ids and fields.
local function deliver(worker, many)
  local is = grouped('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', many, 'STREAMS', jobs, '>')
  return is and is[1][2] or {}
end

-- Delivers one that is out for the `number`th time: its fields; nil when somebody has removed it.
-- With FORCE, for the group may have been made again since.
local function redeliver(worker, id, number)
  local entries =
    grouped('XCLAIM', jobs, 'workers', worker, '0', id, 'RETRYCOUNT', number, 'FORCE')
  return entries[1] and entries[1][2]
end

-- Finds those that something else than a worker of ours has taken from the group, and has neither
-- acknowledged nor asked for again within the visibility timeout: they come back now. True with
-- them where all were looked at; else the next look goes on, for those of our own that are held for
-- long are idle, too.
local function adopt(now, visibility)
  local idle, adopted, many = math.ceil(visibility / 1000), {}, 1000
  local from = call('HGET', meta, 'pending') or '-'
  local pending = redis.pcall('XPENDING', jobs, 'workers', 'IDLE', idle, from, '+', many)
  if pending.err then
    pending = {}
  end
  for _, one in ipairs(pending) do
    if not call('ZSCORE', out, one[1]) then
      call('ZADD', out, now, one[1])
      adopted[#adopted + 1] = one[1]
    end
  end
  local is_all = #pending < many
  if not is_all then
    call('HSET', meta, 'pending', '(' .. pending[many][1])
  elseif from ~= '-' then
    call('HDEL', meta, 'pending')
  end
  return adopted, is_all
end

-- The fields of one that is out.
local function body(id)
  local entry = call('XRANGE', jobs, id, id)[1]
  return entry and entry[2]
end

-- They are out no more: how many of them were.
local function put_down(ids)
  return call('XACK', jobs, 'workers', unpack(ids))
end

-- Cuts off all that come before those that are out, or wait when none is; how many these were. Nil
-- where the group does not know all jobs that are out, as when it was made again: it would cut them
-- off, too.
local function cut()
  local pending = redis.pcall('XPENDING', jobs, 'workers')
  if pending.err or pending[1] ~= call('ZCARD', out) then
    return 0
  end
  local from = pending[2]
  if not from then
    local ms, number = string.match(call('HGET', meta, 'last') or '', '^(%d+)-(%d+)$')
    from = ms and string.format('%s-%.0f', ms, number + 1)
  end
  return from and call('XTRIM', jobs, 'MINID', '=', from) or 0
end

-- Removes those that are out no more. XDEL walks to each of them again; where jobs are done in
-- about the order in which they came, cutting them off removes most of them in one step.
local function erase(ids)
  if #ids == 1 or cut() < #ids then
    call('XDEL', jobs, unpack(ids))
  end
end

-- Keeps one that is done, while its fields are there still.
local function keep_done(id, number)
  local fields = body(id)
  if fields then
    call('XADD', done, '*', '@id', id, '@deliveries', number, unpack(fields))
  end
end

-- Keeps no more than this many of the done. Nothing is lost by it: they are done.
local function keep_last(keep)
  call('XTRIM', done, 'MAXLEN', '=', keep)
end

-- This many of the done, the oldest first.
local function kept(many)
  local answer = {nonce}
  for _, entry in ipairs(many > 0 and call('XRANGE', done, '-', '+', 'COUNT', many) or {}) do
    local fields = entry[2]
    answer[#answer + 1] = {fields[2], tonumber(fields[4]), {unpack(fields, 5)}}
  end
  return answer
end
