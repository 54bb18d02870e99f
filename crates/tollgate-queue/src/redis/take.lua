-- Takes jobs: nonce, settings, us of visibility, most deliveries, how many dead are kept, the
-- worker, how many. The keys of the rate follow those of the queue.
local visibility, enough, keep = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local worker, most = ARGV[6], tonumber(ARGV[7])
local LOOK = 256
local other, is_new = agree('working', ARGV[2])
if other then
  return other
end
if is_new then
  redis.call('HSET', meta, 'working', ARGV[2])
end

-- Reads those that were never delivered; the group is made when it is not there.
local function read(many)
  local function ask()
    return redis.pcall('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', many, 'STREAMS', jobs, '>')
  end
  local is = ask()
  if is and is.err and string.find(is.err, 'NOGROUP', 1, true) then
    local last = redis.call('HGET', meta, 'last') or '0'
    redis.call('XGROUP', 'CREATE', jobs, 'workers', last, 'MKSTREAM')
    is = ask()
  end
  if is and is.err then
    return nil, is
  end
  return is and is[1][2] or {}
end

-- Those that come back.
local due = redis.call('ZRANGE', out, '-inf', now, 'BYSCORE', 'LIMIT', 0, most + LOOK, 'WITHSCORES')
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
local has_deadlines = redis.call('HLEN', untils) > 0
local function is_too_old(id)
  local until_us = has_deadlines and redis.call('HGET', untils, id)
  return until_us and tonumber(until_us) <= now
end
local back = {}
-- Whether there is more that was not looked at.
local is_cut = #order == most + LOOK
for _, found in ipairs(order) do
  if #back == most then
    break
  end
  local id = found[1]
  local number, _, why = try(id)
  if is_too_old(id) then
    remove({id})
    count('too_old', 1)
  elseif number >= enough then
    bury(id, number, why, keep)
  else
    back[#back + 1] = {id, number, why}
  end
end

-- Those that were never delivered.
local fresh = math.min(most - #back, redis.call('XLEN', jobs) - redis.call('ZCARD', out))
if has_deadlines and fresh > 0 then
  local want, looked = most - #back, 0
  local from = redis.call('HGET', meta, 'last') or '0-0'
  local dropped = 0
  fresh = 0
  while fresh < want and looked < want + LOOK do
    -- No more than are wanted: bodies can be large.
    local many = math.min(want - fresh, want + LOOK - looked)
    local entries = redis.call('XRANGE', jobs, '(' .. from, '+', 'COUNT', many)
    for _, entry in ipairs(entries) do
      from = entry[1]
      if is_too_old(from) then
        redis.call('XDEL', jobs, from)
        redis.call('HDEL', untils, from)
        dropped = dropped + 1
      else
        fresh = fresh + 1
      end
    end
    looked = looked + #entries
    if #entries < many then
      break
    end
  end
  count('too_old', dropped)
  gone(dropped)
  is_cut = is_cut or looked == want + LOOK
end

local there = #back + fresh
local granted, wait = there, -1
$GRANT

local answer = {nonce, 'jobs', 0}
local due_us = now + visibility
local marks, scores = {}, {}
local function hand(id, number, why, fields)
  scores[#scores + 1], scores[#scores + 2] = string.format('%.0f', due_us), id
  marks[#marks + 1], marks[#marks + 2] = id, number .. 'h' .. why
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, number, fields
end
local delivered = 0
for place = 1, math.min(granted, #back) do
  local id, number, why = unpack(back[place])
  local entry = redis.call('XCLAIM', jobs, 'workers', worker, 0, id, 'RETRYCOUNT', number + 1)[1]
  if entry then
    hand(id, number + 1, why, entry[2])
    delivered = delivered + 1
  else
    -- Somebody has removed it from the stream.
    remove({id})
  end
end
count('redelivered', delivered)
if granted > delivered then
  local entries, wrong = read(granted - delivered)
  if wrong then
    return wrong
  end
  for _, entry in ipairs(entries) do
    hand(entry[1], 1, '', entry[2])
  end
  if #entries > 0 then
    redis.call('HSET', meta, 'last', entries[#entries][1])
    count('delivered', #entries)
    if not counts_all() then
      gone(#entries)
    end
  end
  delivered = delivered + #entries
end
if #scores > 0 then
  redis.call('ZADD', out, unpack(scores))
  redis.call('HSET', tries, unpack(marks))
end
if delivered == most then
  answer[3] = 0
elseif granted < there then
  answer[3] = wait
elseif is_cut then
  answer[3] = 0
else
  local first = redis.call('ZRANGE', out, 0, 0, 'WITHSCORES')[2]
  answer[3] = first and math.max(0, tonumber(first) - now) or -1
end
return answer
