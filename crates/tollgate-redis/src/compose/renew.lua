-- Renews a hold. KEYS: for each subject its state. ARGV: the nonce, the id of the hold, the cost
-- that it was placed with, how long it lasts from now on in microseconds, and how long it was asked
-- for, or 0 where its id does not record it. From the sixth on, the counts.
local name, ttl, asked = name_of(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local counts, at, renewed = {}, now, 0
local wrong = each_count(6, function(key, logs, tag, _, most)
  local count, wrong = open_held(key, logs, tag, most)
  if wrong then
    return wrong
  end
  if count then
    -- Keys that are written below are read here: on a cluster each key may have moved to another
    -- node.
    count.open = name and open_under(count.holds, name)
    count.member = count.open and count.open.member or not name and member_of(ARGV[2], ARGV[3])
    if count.member then
      count.since, count.own, count.fence = span_of(key, count.member)
    end
    counts[#counts + 1] = count
  end
end)
if wrong then
  return refused(wrong)
end
-- Nothing is changed before all counts are known to be sound.
for _, count in ipairs(counts) do
  at = math.max(at, end_due(count))
end
for _, count in ipairs(counts) do
  local key, open, member = count.holds.key .. '@', count.open, count.member
  local stop = member and redis.call('ZSCORE', key, member)
  if stop then
    if open then
      write_name(open.key, open.letter, open.ttl, open.fence, open.answers, open.cost, at + ttl)
    end
    redis.call('ZADD', key, number(at + ttl), member)
    renewed = at + ttl
    count.holds.first = math.min(count.holds.first, renewed)
    find_last(count.holds, tonumber(stop))
    count.holds.last = math.max(count.holds.last, renewed)
    -- The record of its opening lives as long as it does, also where it is settled before.
    local since = count.since or asked
    if count.own and since > 0 then
      local kept = number(since + renewed - stop) .. (count.fence ~= '' and ' ' .. count.fence or '')
      redis.call('SET', count.own, kept, 'PX', lifetime(renewed - now))
    end
  end
  write_count(count)
end
return {ARGV[1], renewed}
