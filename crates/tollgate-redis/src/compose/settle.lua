-- Takes a hold away, and charges what was used to the rate limits of its counts. KEYS: for each
-- subject its state. ARGV: the nonce, the id of the hold, the cost that it was placed with, the
-- units that were used, and for how many milliseconds that is remembered. Of a unit that was not
-- said to be used, the end of the hold says whether its cost is charged. From the sixth on, the
-- counts. Behind the id of a named hold may follow `!` and the number of its answer that reached
-- nobody. Of an id that is a name alone, the third is for how many microseconds a release without a
-- hold is remembered.
local id, cost, used = ARGV[2], ARGV[3], unit.amounts(ARGV[4])
local is_used = string.find(ARGV[4], '^[1-9]') or string.find(ARGV[4], '=[1-9]')
local name, lost = name_of(id), tonumber(string.sub(id, 34))
local is_name_alone = string.sub(id, 1, 2) == '4e'
local member = not name and member_of(id, cost)
local keeps = string.sub(id, 1, 2) ~= '61'
local counts, known, found, misused, at = {}, nil, false, false, now
local wrong = each_count(6, function(key, logs, tag, _, most)
  local count, wrong = open_held(key, logs, tag, most)
  if wrong then
    return wrong
  end
  count = count or {}
  count.place, count.key, count.at = #most, key, now
  counts[#counts + 1] = count
end)
if wrong then
  return refused(wrong)
end
-- Nothing is changed before all counts are known to be sound.
local some_are_not, is_credit = false, string.sub(id, 1, 2) == '6b'
for _, count in ipairs(counts) do
  if count.holds then
    count.at = end_due(count)
    at = math.max(at, count.at)
    if is_credit then
      local given = credit.take_back(count.holds, id)
      found, known = found or given, given == 0 and 0 or known
    elseif name then
      local open = open_under(count.holds, name) or {}
      count.is_open, count.member, count.is_last = open.stop, open.member, open.answers == lost
      misused = misused or open.letter == 'A' and is_used
    else
      count.is_open, count.member = redis.call('ZSCORE', count.holds.key .. '@', member), member
    end
    found = found or count.is_open
  end
  some_are_not = some_are_not or not count.is_open
end
if some_are_not and not is_credit then
  for _, count in ipairs(counts) do
    known = known or over(count.key, name or id, at)
  end
end
for _, count in ipairs(counts) do
  if lost and count.is_open and not count.is_last then
    known = known or 0
  end
end
for _, count in ipairs(name and not misused and counts or {}) do
  line.leave_name(count.key, name)
end
local reply = {ARGV[1], 0, 0}
if misused then
  reply[2] = 4
elseif known then
  reply[2], reply[3] = 1, known
elseif found then
  reply[2] = 2
elseif is_name_alone and not is_used then
  mark_early(counts[1].key, name, counts[1].at, tonumber(cost))
  reply[2] = 3
end
-- What is charged by unit, as it is written, and of the first unit.
local charged
if reply[2] == 2 then
  charged = {by = {requests = 0}}
  for _, count in ipairs(counts) do
    if count.is_open and ARGV[4] ~= '0' then
      local hold = hold_of(count.member, 0)
      charged.by.requests = hold.charging
      for name, amount in pairs(hold.by_charging or {}) do
        charged.by[name] = amount
      end
      break
    end
  end
  -- A plain 0 is nothing of any unit.
  for name, amount in pairs(used) do
    charged.by[name] = name ~= 'slots' and amount or nil
  end
  local names, words = {}, {}
  for name, amount in pairs(charged.by) do
    if amount > 0 then
      names[#names + 1] = name == 'requests' and '' or name
    end
  end
  -- Requests come first.
  table.sort(names)
  for i, name in ipairs(names) do
    name = name == '' and 'requests' or name
    words[i] = name .. '=' .. number(charged.by[name])
    charged.first = charged.first or charged.by[name]
  end
  charged.first = charged.first or 0
  charged.text = table.concat(words, ',')
  if #names == 0 or #names == 1 and names[1] == '' then
    charged.text = charged.first
  end
  reply[3] = charged.text
end
for _, count in ipairs(counts) do
  local rows = {}
  if count.is_open and charged then
    local holds = count.holds
    redis.call('ZREM', holds.key .. '@', count.member)
    add(holds, hold_of(count.member, 0), -1)
    find_last(holds, tonumber(count.is_open))
    if lost then
      redis.call('DEL', holds.key .. '@' .. name)
    elseif keeps then
      local till = at + 1000 * ARGV[5]
      local mark = mark_of_settled(charged.text, till)
      if name then
        mark = 's' .. string.gsub(mark, '%.', ' ')
      end
      redis.call('SET', holds.key .. '@' .. (name or id), mark, 'PX', lifetime(till - now))
    end
    rows = charge_beside(count, charged.by, charged.first)
  end
  if count.holds then
    write_count(count)
  end
  for i = 1, count.place do
    for field = 1, 5 do
      reply[#reply + 1] = rows[i] and rows[i][field] or -2
    end
  end
end
return reply
