-- Takes a hold away, and charges what was used to the rate limits of its counts.
-- KEYS: for each subject its state, and a log for each limit.
-- ARGV: the nonce, the id of the hold, the cost that it was placed with, the units that were used,
-- and for how many milliseconds that is remembered. From the sixth on, the counts.
local id, cost, actual = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local member, keeps = member_of(id, cost), string.sub(id, 1, 2) ~= '61'
local counts, known, found = {}, nil, false
local wrong = each_count(6, function(key, logs, tag, _, most, span)
  known = known or redis.call('GET', key .. '@' .. id)
  local count, wrong = open_held(key, logs, tag, most, span)
  if wrong then
    return wrong
  end
  count = count or {}
  count.place = #most
  counts[#counts + 1] = count
end)
if wrong then
  return refused(wrong)
end
-- Nothing is changed before all counts are known to be sound.
for _, count in ipairs(counts) do
  if count.holds then
    end_due(count)
    count.is_open = redis.call('ZSCORE', count.holds.key .. '@', member)
    found = found or count.is_open
  end
end
local reply = {ARGV[1], 0, 0}
if known then
  reply[2], reply[3] = 1, tonumber(known)
elseif found then
  reply[2], reply[3] = 2, actual
end
for _, count in ipairs(counts) do
  local rows = {}
  if count.is_open and not known then
    local holds = count.holds
    redis.call('ZREM', holds.key .. '@', member)
    add(holds, hold_of(member, 0), -1)
    find_last(holds, tonumber(count.is_open))
    if keeps then
      redis.call('SET', holds.key .. '@' .. id, number(actual), 'PX', ARGV[5])
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
      rows[i] = {(limit.code == 'c' or fits) and 1 or 0, cut, left, wait,
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
