-- Renews a hold.
-- KEYS: for each subject its state.
-- ARGV: the nonce, the id of the hold, the cost that it was placed with, and how long it lasts from
-- now on in microseconds. From the fifth on, the counts.
local name, ttl = name_of(ARGV[2]), tonumber(ARGV[4])
local counts, at, renewed = {}, now, 0
local wrong = each_count(5, function(key, logs, _, _, most)
  local count, wrong = open_held(key, logs, most)
  if wrong then
    return wrong
  end
  counts[#counts + 1] = count
end)
if wrong then
  return refused(wrong)
end
-- Nothing is changed before all counts are known to be sound.
for _, count in ipairs(counts) do
  at = math.max(at, end_due(count))
end
for _, count in ipairs(counts) do
  local key = count.holds.key .. '@'
  local open = name and open_under(count.holds, name)
  local member = open and open.member or not name and member_of(ARGV[2], tonumber(ARGV[3]))
  local stop = member and redis.call('ZSCORE', key, member)
  if open then
    write_name(open.key, open.letter, open.ttl, open.fence, open.answers, open.cost, at + ttl)
  end
  if stop then
    redis.call('ZADD', key, number(at + ttl), member)
    renewed = at + ttl
    count.holds.first = math.min(count.holds.first, renewed)
    find_last(count.holds, tonumber(stop))
    count.holds.last = math.max(count.holds.last, renewed)
  end
  write_count(count)
end
return {ARGV[1], renewed}
