-- Takes jobs: nonce, settings, us of visibility, most deliveries, how many dead are kept, the
-- worker, how many. The keys of the rate follow those of the queue.
local visibility, enough, keep = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local worker, most = ARGV[6], tonumber(ARGV[7])
local LOOK = 256
local was =
  call('HMGET', meta, 'form', 'working', 'all', 'delivered', 'window', 'left', 'before')
local other = other_form(was[1])
if other then
  return other
end
if not was[2] then
  call('HSET', meta, 'form', FORM, 'working', ARGV[2])
elseif was[2] ~= ARGV[2] then
  return {nonce, 'settings', was[2]}
end
local now, all = clock(), was[3] == '1'

local has_deadlines = call('EXISTS', untils) == 1
local function is_too_old(id)
  local until_us = has_deadlines and call('HGET', untils, id)
  return until_us and tonumber(until_us) <= now
end

-- How many left meanwhile, which is written at the end with what else is to be.
local left = 0
local function settle(notes)
  if left > 0 then
    local at, so_far, before = drain(now, was[5], was[6], was[7])
    for _, it in ipairs({'window', at, 'left', so_far + left, 'before', before}) do
      notes[#notes + 1] = it
    end
  end
  if #notes > 0 then
    call('HSET', meta, unpack(notes))
  end
end

-- Those that come back; and whether there is more that was not looked at.
local back, is_cut = {}, false
local soonest = tonumber(call('ZRANGE', out, 0, 0, 'WITHSCORES')[2])
if soonest and soonest <= now then
  local due = call('ZRANGE', out, '-inf', now, 'BYSCORE', 'LIMIT', 0, most + LOOK, 'WITHSCORES')
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
  is_cut = #order == most + LOOK
  for _, found in ipairs(order) do
    if #back == most then
      break
    end
    local id = found[1]
    local number, _, why = try(id)
    if is_too_old(id) then
      remove(id)
      count('too_old', 1)
      left = left + (all and 1 or 0)
    elseif number >= enough then
      bury(id, number, why, keep)
      left = left + (all and 1 or 0)
    else
      back[#back + 1] = {id, number, why}
    end
  end
end

-- Those that were never delivered: as many as may be there. With deadlines, as many as there are.
local fresh = most - #back
if has_deadlines and fresh > 0 then
  local want, looked, dropped, place = fresh, 0, 0, nil
  fresh = 0
  while fresh < want and looked < want + LOOK do
    -- No more than are wanted: bodies can be large.
    local many = math.min(want - fresh, want + LOOK - looked)
    local found, kept
    found, kept, place = sift(many, place, is_too_old)
    looked, fresh, dropped = looked + found, fresh + kept, dropped + found - kept
    if found < many then
      break
    end
  end
  count('too_old', dropped)
  left = left + dropped
  is_cut = is_cut or looked == want + LOOK
end

local there = #back + fresh
local granted, wait = there, -1
$GRANT

local answer = {nonce, 'jobs', 0}
local due = string.format('%.0f', now + visibility)
local scores = {}
local function hand(id, number, fields)
  scores[#scores + 1], scores[#scores + 2] = due, id
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, number, fields
end
local delivered = 0
if #back > 0 then
  local marks = {}
  for place = 1, math.min(granted, #back) do
    local id, number, why = unpack(back[place])
    local fields = redeliver(worker, id, number + 1)
    if fields then
      hand(id, number + 1, fields)
      marks[#marks + 1], marks[#marks + 2] = id, number + 1 .. 'h' .. why
      delivered = delivered + 1
    else
      -- Somebody has removed it from where it lay.
      remove(id)
      left = left + (all and 1 or 0)
    end
  end
  if delivered > 0 then
    call('HSET', tries, unpack(marks))
    count('redelivered', delivered)
  end
end
local notes = {}
if granted > delivered then
  local entries = deliver(worker, granted - delivered)
  for _, entry in ipairs(entries) do
    hand(entry[1], 1, entry[2])
  end
  if #entries > 0 then
    notes = {'last', entries[#entries][1], 'delivered', tonumber(was[4] or 0) + #entries}
    left = left + (all and 0 or #entries)
    delivered = delivered + #entries
  end
end
settle(notes)
if #scores > 0 then
  call('ZADD', out, unpack(scores))
end
if delivered == most then
  answer[3] = 0
elseif granted < there then
  answer[3] = wait
elseif is_cut then
  answer[3] = 0
else
  if soonest and soonest <= now then
    soonest = tonumber(call('ZRANGE', out, 0, 0, 'WITHSCORES')[2])
  elseif delivered > 0 then
    soonest = math.min(soonest or math.huge, now + visibility)
  end
  answer[3] = soonest and math.max(0, soonest - now) or -1
end
return answer
