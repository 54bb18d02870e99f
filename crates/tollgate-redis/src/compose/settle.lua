-- Takes a hold away, and charges what was used to the rate limits of its counts. KEYS: for each
-- subject its state. ARGV: the nonce, the id of the hold, the cost that it was placed with, the
-- units that were used, and for how many milliseconds that is remembered. From the sixth on, the
-- counts. Behind the id of a named hold may follow `!` and the number of its answer that reached
-- nobody. Of an id that is a name alone, the third is for how many microseconds a release without a
-- hold is remembered.
local id, cost, actual = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local name, lost = name_of(id), tonumber(string.sub(id, 34))
local is_name_alone = string.sub(id, 1, 2) == '4e'
local member = not name and member_of(id, cost)
local keeps = string.sub(id, 1, 2) ~= '61'
local counts, known, found, misused, at = {}, nil, false, false, now
local wrong = each_count(6, function(key, logs, _, _, most)
  local count, wrong = open_held(key, logs, most)
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
local some_are_not = false
for _, count in ipairs(counts) do
  if count.holds then
    count.at = end_due(count)
    at = math.max(at, count.at)
    if name then
      local open = open_under(count.holds, name) or {}
      count.is_open, count.member, count.is_last = open.stop, open.member, open.answers == lost
      misused = misused or open.letter == 'A' and actual > 0
    else
      count.is_open, count.member = redis.call('ZSCORE', count.holds.key .. '@', member), member
    end
    found = found or count.is_open
  end
  some_are_not = some_are_not or not count.is_open
end
if some_are_not then
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
  reply[2], reply[3] = 1, tonumber(known)
elseif found then
  reply[2], reply[3] = 2, actual
elseif is_name_alone and actual == 0 then
  mark_early(counts[1].key, name, counts[1].at, cost)
  reply[2] = 3
end
for _, count in ipairs(counts) do
  local rows = {}
  if count.is_open and reply[2] == 2 then
    local holds = count.holds
    redis.call('ZREM', holds.key .. '@', count.member)
    add(holds, hold_of(count.member, 0), -1)
    find_last(holds, tonumber(count.is_open))
    if lost then
      redis.call('DEL', holds.key .. '@' .. name)
    elseif keeps then
      local till = at + 1000 * ARGV[5]
      local mark = name and 's' .. number(actual) .. ' ' .. number(till)
        or mark_of_settled(actual, till)
      redis.call('SET', holds.key .. '@' .. (name or id), mark, 'PX', lifetime(till - now))
    end
    local wanted = math.max(actual, 1)
    for i, limit in ipairs(count.limits) do
      repair(limit)
      local fits, cut = actual <= math.max(0, (judge(limit)) - kept_of(count, limit)), 0
      if actual > 0 and counts_units(limit) then
        cut = charge_some(limit, actual, count.most[i], fits)
      end
      limit.changed = true
      local left, wait, reset = judge_beside(count, i, wanted)
      rows[i] = {(limit.step.counts == 'slots' or fits) and 1 or 0, cut, left, wait,
        reset_of(count, i, reset)}
    end
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
