-- A check or a peek of counts on which holds may be open, or the placing of a hold.
-- KEYS: for each subject its state.
-- ARGV: the nonce, the cost, the mode (`whole`, `waiting`, `in-line`, `partial`, `waiting-partial`,
-- `peek`, `peek-partial`), the id of the hold to place or nothing, how long it lasts in microseconds;
-- the key of the request ids is the last key if the sixth argument is not empty, which is then 16
-- bytes of the id and 8 of the question, and the seventh how long it is remembered in microseconds.
-- From the eighth on, the counts. The cost is a number of requests, or an amount of each unit, of
-- which the first is answered.
local mode, id, ttl = ARGV[3], ARGV[4], tonumber(ARGV[5])
unit.asked, unit.is_plain = unit.amounts(ARGV[2]), tonumber(ARGV[2])
unit.first = string.match(ARGV[2], '^%l[%l%d_]*') or 'requests'
local cost = unit.asked[unit.first]
local peek = string.sub(mode, 1, 4) == 'peek'
local letter = id ~= '' and string.char(tonumber(string.sub(id, 1, 2), 16)) or nil
local kind, name = letter and string.lower(letter), letter and name_of(id)
local is_credit = kind == 'k'
local own = mode == 'in-line' and member_of(id, ARGV[2]) or nil
local request, about, overused
local forgotten, lies = 0, nil
if ARGV[6] ~= '' then
  request = table.remove(KEYS)
  local known
  known, about, overused, lies = recall(request, ARGV[6], now, now + ARGV[7])
  if lies then
    redis.call('PEXPIRE', request, lifetime(lies))
  end
  if known == -1 then
    return {ARGV[1], -1}
  elseif known and known.err then
    return known
  elseif known then
    local reply = {ARGV[1], -5, known[1], known[2], known[3]}
    for i = 4, #known, 4 do
      local r = #reply
      reply[r + 1], reply[r + 2], reply[r + 3] = known[i], 0, known[i + 1]
      reply[r + 4], reply[r + 5], reply[r + 6] = 0, known[i + 2], known[i + 3]
    end
    return reply
  end
end
local counts, at = {}, now
-- A check of rates that meets no open hold is decided as by the script for such a check: a denial
-- writes only what was carried over, repaired or noted for a ban.
local concerns_holds, changed = kind ~= nil, false
local wrong = each_count(8, function(key, logs, tag, has_state, most, span)
  local count, wrong = open_count(key, logs, tag, has_state, most, span)
  if wrong then
    return wrong
  end
  -- Units counted under other numbers were charged before: they can be given back as long as their
  -- state would have lived.
  count.before_ms = not peek and count.is_carried and longest_pttl(count.keys) or 0
  count.mark = count.before_ms > 0 and mark_of(key)
  concerns_holds = concerns_holds or count.was_held or credit.is_open(count.holds)
  counts[#counts + 1] = count
end)
if wrong then
  return refused(wrong)
end
-- The refusal of one more hold on a full count, once all due holds have ended.
local function crowded(holds)
  local is_charging = kind == 'c'
  if holds.count < most_holds and not (is_charging and holds.chargers >= most_charging) then
    return nil
  end
  local open, chargers = holds.count, holds.chargers
  for _, hold in ipairs(due_of(holds, clock_of(holds))) do
    open, chargers = open - 1, chargers - (hold.is_charging and 1 or 0)
  end
  return open >= most_holds and -3 or is_charging and chargers >= most_charging and -8 or nil
end

-- Where slots are counted, those who wait in line come first.
for _, count in ipairs(counts) do
  for _, limit in ipairs(count.limits) do
    if limit.step.counts == 'slots' and not count.ahead then
      count.ahead = line.ahead_of(count.holds.key, own)
    end
  end
end

-- A name that is known is answered again with its open hold, or refused.
local repeated, refusal
if name then
  local unknown, is_over = false, false
  for _, count in ipairs(counts) do
    local seen, back = clock_of(count.holds)
    at = math.max(at, seen)
    local open = open_under(count.holds, name)
    if open and open.stop - back > seen then
      open.stop = open.stop - back
      count.open = open
    end
    repeated = repeated or count.open
    unknown = unknown or not count.open
  end
  for _, count in ipairs(counts) do
    is_over = is_over or over(count.holds.key, name, at)
  end
  if repeated and (unknown or repeated.ttl ~= ttl or repeated.member ~= member_of(id, ARGV[2])) then
    refusal = -5
  elseif repeated and repeated.answers > most_repeats then
    refusal = -6
  elseif not repeated and is_over then
    refusal = -7
  end
end
-- Whether a count has a credit of this id; and a refusal.
local function find_credit(holds)
  local at, back = clock_of(holds)
  local all, own, is_same, is_over, more = 0, nil, true, true, 0
  for _, each in ipairs(holds.credits) do
    if each.stop - back > at then
      all = all + (each.left > 0 and 1 or 0)
      if each.id == id then
        own, is_same = each, is_same and unit.asked[each.unit] == each.given
        is_over, more = is_over and each.given == 0, more - 1
      end
    end
  end
  for _ in pairs(unit.asked) do
    more = more + 1
  end
  if own then
    return own, is_over and -7 or not (is_same and more == 0) and -5 or nil
  end
  return nil, all + more > credit.most and -11 or nil
end
for _, count in ipairs(is_credit and counts or {}) do
  count.credit, refusal = find_credit(count.holds)
end
for _, count in ipairs(counts) do
  if kind and not is_credit and not peek and not repeated and not refusal then
    refusal = crowded(count.holds)
  end
end
for _, count in ipairs(counts) do
  if own and not repeated and not refusal and count.ahead and not count.ahead.is_known
      and count.ahead.all >= line.most then
    refusal = -9
  end
end
-- A refusal changes nothing.
if refusal then
  return {ARGV[1], refusal}
end
-- Nothing is changed before all counts are known to be sound.
for _, count in ipairs(counts) do
  at = math.max(at, end_due(count, peek))
end
local function write_all()
  if peek then
    return
  end
  for _, count in ipairs(counts) do
    drop_stale(count)
    for _, limit in ipairs(count.limits) do
      limit.changed = true
    end
    write_count(count)
    if count.before_ms > 0 and count.before_ms > longest_pttl(count.keys) then
      outlive(count.holds.key .. '!reset', count.before_ms, count.mark)
    end
  end
end
local stray, fence = false, 0
for _, count in ipairs(counts) do
  fence = math.max(fence, count.holds.fence)
  for _, limit in ipairs(count.limits) do
    changed = repair(limit) or changed
    local is_slots = limit.step.counts == 'slots'
    concerns_holds = concerns_holds or is_slots
    -- Slots are taken by holds alone: a check that places none would never give them back.
    stray = stray or is_slots and not kind and not peek
  end
end
-- The amount that a limit is judged with, of a cost of so many of its first unit; and whether that
-- unit is the limit's.
function unit.wanted(limit, cost)
  local counts, is_plain = limit.step.counts, unit.is_plain
  local own = counts == 'slots' and counts or limit.unit or 'requests'
  if not counts or own == unit.first or is_plain and own == 'slots' and (not kind or kind == 'a') then
    return cost, true
  end
  -- A hold takes one slot unless it says how many.
  return unit.asked[own] or own == 'slots' and kind and 1 or 0, is_plain and own == 'slots'
end

-- The answer of every limit to a cost.
local function judge_all(cost)
  local fields, least, admitted = {}, nil, true
  for _, count in ipairs(counts) do
    for i, limit in ipairs(count.limits) do
      local wanted, is_first = unit.wanted(limit, cost)
      local left, wait, _, held, recorded = judge_beside(count, i, wanted)
      if is_first then
        least = math.min(least or left, left)
      end
      admitted = admitted and wait == 0
      fields[#fields + 1] = {left = left, wait = wait, held = held, at = now, recorded = recorded,
        wanted = wanted, carried = count.carried[i]}
    end
  end
  return fields, admitted, least
end
for _, count in ipairs(is_credit and counts or {}) do
  local holds = count.holds
  if not count.credit then
    holds.fence = math.max(at, holds.fence + 1)
    credit.make_room(holds, unit.asked)
    for name, amount in pairs(unit.asked) do
      count.credit = {id = id, unit = name, left = amount, given = amount, stop = at + ttl}
      holds.credits[#holds.credits + 1] = count.credit
    end
    table.sort(holds.credits, function(one, other)
      return one.stop < other.stop or one.stop == other.stop and one.id < other.id
    end)
  end
end
local fields, admitted, least = judge_all(cost)
if string.sub(mode, -7) == 'partial' then
  cost = math.max(1, math.min(cost, least or 0))
  fields, admitted = judge_all(cost)
end
admitted = admitted and not stray
local stop, answer, ahead = 0, 1, 0
if own and not repeated then
  local may_come = true
  for _, field in ipairs(fields) do
    may_come = may_come and field.wait ~= -1
  end
  for _, count in ipairs(counts) do
    ahead = math.max(ahead, count.ahead and count.ahead.count or 0)
  end
  line.renew(counts, own, ttl, may_come and not admitted)
end
if repeated then
  -- All of it is held already.
  admitted, stop, fence, answer = true, repeated.stop, repeated.fence, repeated.answers + 1
  for _, field in ipairs(fields) do
    field.wait, field.held = 0, 0
  end
  for _, count in ipairs(peek and {} or counts) do
    write_name(count.open.key, letter, ttl, fence, answer, count.open.cost, stop)
  end
elseif is_credit then
  -- It is given whatever is left.
  admitted, stop, fence = true, counts[1].credit.stop, counts[1].holds.fence
  for _, field in ipairs(fields) do
    field.wait, field.held = 0, 0
  end
elseif admitted and not peek then
  local f = 0
  stop, fence = at + ttl, math.max(at, fence + 1)
  local charges = not kind or kind == 'a'
  for _, count in ipairs(counts) do
    local paid = charges and credit.pay(count.limits, count.holds, function(limit)
      return (unit.wanted(limit, cost))
    end) or {}
    for _, limit in ipairs(count.limits) do
      f = f + 1
      if limit.step.counts then
        fields[f].left = math.max(0, fields[f].left - fields[f].wanted)
      end
      local due = fields[f].wanted - (paid[limit.unit or 'requests'] or 0)
      if counts_units(limit) and charges and due > 0 then
        charge(limit, due)
        fields[f].at = fields[f].recorded
      end
      if due < fields[f].wanted and counts_units(limit) then
        -- Credits get it back, and not the limit.
        fields[f].at = paid_by_credits
      end
    end
    if kind then
      place(count.holds, member_of(id, ARGV[2]), stop)
      count.holds.fence = fence
      if name then
        write_name(count.holds.key .. '@' .. name, letter, ttl, fence, answer, ARGV[2], stop)
      end
    end
  end
end
if not admitted and not peek then
  local f = 0
  for _, count in ipairs(counts) do
    local waits = {}
    for i in ipairs(count.limits) do
      changed = changed or count.carried[i] == 1
      waits[i] = fields[f + i].wait
    end
    -- A denial of who waits counts for no ban.
    if string.sub(mode, 1, 7) ~= 'waiting' and not own and deny(count.limits, waits) then
      changed = true
      for i, limit in ipairs(count.limits) do
        if limit.step.deny then
          fields[f + i].left, fields[f + i].wait = judge_beside(count, i, 1)
        end
      end
    end
    f = f + #count.limits
  end
end
local f = 0
for _, count in ipairs(counts) do
  for i, limit in ipairs(count.limits) do
    f = f + 1
    fields[f].reset = reset_of(count, i, reset_alone(limit))
  end
end
if overused then
  forgotten = -1
elseif request and admitted and not peek then
  local answer = {ARGV[1], cost, now}
  for _, field in ipairs(fields) do
    local r = #answer
    answer[r + 1], answer[r + 2], answer[r + 3] = field.left, field.reset, field.at
    answer[r + 4] = field.carried
  end
  forgotten, lies = remember(request, ARGV[6], about, now, now + ARGV[7], answer)
  if lies then
    redis.call('PEXPIRE', request, lifetime(lies))
  end
end
if admitted or concerns_holds or changed then
  write_all()
end
local places = kind and admitted and not peek
local reply = {ARGV[1], admitted and cost or 0, now, places and fence or 0, places and stop or 0}
for _, field in ipairs(fields) do
  local r = #reply
  reply[r + 1], reply[r + 2], reply[r + 3] = field.left, field.wait, field.reset
  reply[r + 4], reply[r + 5], reply[r + 6] = field.held, field.at, field.carried
end
if name then
  reply[#reply + 1] = admitted and answer or 0
end
if own then
  reply[#reply + 1] = ahead
end
if request then
  reply[#reply + 1] = forgotten
end
return reply
