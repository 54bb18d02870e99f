-- Takes jobs: nonce, settings, us of visibility, most deliveries, how many dead are kept, the
-- worker, how many, how many of the done are kept. The keys of the rate follow those of the queue.
-- Answers us until there may be more, or -1; then, when there are any, the jobs as MessagePack: of
-- each its id, its fields, and which delivery it is when it is not the first. A Redis is much
-- slower at making an answer of lists within lists than at packing them.
local visibility, worker, most = tonumber(ARGV[3]), ARGV[6], tonumber(ARGV[7])
local LOOK = 256
local was = call('HMGET', meta, 'form', 'working', 'all', 'delivered', 'window', 'left', 'before',
  'paused', 'looked', 'held')
local other = other_form(was[1])
if other then
  return other
end
typed(LAST)
if not was[2] then
  -- A take makes no queue: one that was removed beside its workers stays away.
  if call('EXISTS', meta, KEYS[1]) == 0 then
    return {nonce, 'absent'}
  end
  call('HSET', meta, 'form', FORM, 'working', ARGV[2], 'keep', ARGV[8])
elseif was[2] ~= ARGV[2] then
  return {nonce, 'settings', was[2]}
end
if was[8] then
  return {nonce, 'paused'}
end
local now, all = clock(), was[3] == '1'

local has_deadlines = call('EXISTS', untils) == 1
local function is_too_old(id)
  local until_us = has_deadlines and call('HGET', untils, id)
  return until_us and tonumber(until_us) <= now
end

-- Whether one that waits is to be dropped, which it is then.
local function drops(id)
  local is_so = is_too_old(id)
  if is_so then
    leave_client({id})
    call('HDEL', onces, id)
  end
  return is_so
end

-- How many left meanwhile, which is written at the end with what else is to be.
local left = 0
local function settle(notes)
  if left > 0 then
    note_left(notes, left, now, was[5], was[6], was[7])
  end
  if #notes > 0 then
    call('HSET', meta, unpack(notes))
  end
end

-- Those that come back; and whether there is more that was not looked at.
local back, is_cut = {}, false
local soonest = tonumber(call('ZRANGE', out, '0', '0', 'WITHSCORES')[2])
if soonest and soonest <= now then
  local order
  order, is_cut = by_due(most + LOOK, now)
  local enough, keep = tonumber(ARGV[4]), tonumber(ARGV[5])
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
    found, kept, place = sift(many, place, drops)
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

local due, scores = string.format('%.0f', now + visibility), {}
local handed, marks, delivered = {}, {}, 0
for place = 1, math.min(granted, #back) do
  local id, number, why = unpack(back[place])
  local fields = redeliver(worker, id, number + 1)
  if fields then
    delivered = delivered + 1
    handed[delivered] = {id, fields, number + 1}
    marks[#marks + 1] = id
    marks[#marks + 1] = number + 1 .. 'h' .. why
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
local notes = {}
if granted > delivered then
  local entries = deliver(worker, granted - delivered)
  local many = #entries
  if many > 0 then
    notes = {'last', entries[many][1], 'delivered', tonumber(was[4] or 0) + many}
    left = left + (all and 0 or many)
    local ids = {}
    for nth = 1, many do
      ids[nth] = entries[nth][1]
    end
    come_out(ids)
  end
  if delivered == 0 then
    handed = entries
  else
    for place = 1, many do
      handed[delivered + place] = entries[place]
    end
  end
  delivered = delivered + many
end
settle(notes)
if delivered > 0 then
  for place = 1, delivered do
    scores[2 * place - 1] = due
    scores[2 * place] = handed[place][1]
  end
  call('ZADD', out, unpack(scores))
end
local after = 0
if delivered == most then
  after = 0
elseif granted < there then
  after = wait
elseif not is_cut then
  if soonest and soonest <= now then
    soonest = tonumber(call('ZRANGE', out, '0', '0', 'WITHSCORES')[2])
  elseif delivered > 0 then
    soonest = math.min(soonest or math.huge, now + visibility)
  end
  after = soonest and math.max(0, soonest - now) or -1
end
-- All jobs that were never delivered are out now: somebody else holds those that still count as
-- waiting. Where more waits that is looked for as well, once in each visibility timeout.
local is_last = delivered < most and granted == there and not is_cut
local is_time = FORM == 'stream' and now - tonumber(was[9] or 0) >= visibility
local is_held = (is_last or is_time) and depth(false) > 0
if is_held then
  local adopted, is_all = adopt(string.format('%.0f', now), visibility)
  come_out(adopted)
  if #adopted > 0 then
    after = 0
  elseif is_last and after < 0 then
    after = visibility
  end
  if FORM == 'stream' and is_all then
    call('HSET', meta, 'looked', string.format('%.0f', now))
  end
end
-- Offers wake workers where none waits that they could take, which the depth alone does not say then.
if is_last and is_held and not was[10] then
  call('HSET', meta, 'held', '1')
elseif is_last and was[10] and not is_held then
  call('HDEL', meta, 'held')
end
-- Nothing is there: what is known of jobs that wait still, somebody else has taken away.
if delivered == 0 and not is_cut and call('EXISTS', clients, onces) > 0 and depth(true) == 0 then
  call('DEL', clients, onces)
end
return {nonce, 'jobs', after, delivered > 0 and cmsgpack.pack(handed) or nil}
