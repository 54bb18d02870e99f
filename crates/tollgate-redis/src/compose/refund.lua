-- KEYS: the mark of the receipt, or the first state where a check gives back what it has just
-- charged, once and without a mark; for each subject its state, its reset, and a log for each
-- limit. ARGV: the nonce, the cost, when it was charged, until when it could be given back, the
-- number of the charge, what is given back at most; for each subject how many limits and how long
-- what they count can matter, and for each of them its strategy's letter, when it was charged, until
-- when that could be given back, the most units that can be used, and behind `@` for a calendar its
-- numbers after the units, with the edges around now. The cost and what is given back are numbers
-- of requests, or amounts of each unit.
local cost, receipt_at = unit.amounts(ARGV[2]), tonumber(ARGV[3])
local is_plain = tonumber(ARGV[2]) ~= nil
-- What was given back before; a mark of another form says all of it.
local marked = KEYS[1] ~= KEYS[2]
local mark = marked and redis.call('GET', KEYS[1])
local before = {}
if mark then
  local is_sum = string.match(mark, is_plain and '^%d+$' or '^[%l%d_=,]+=%d+$')
  before = is_sum and unit.amounts(mark) or cost
end
-- Of each unit what is left, what is given back now, and what is given back with that in total.
local left, units, sums, gives = {}, unit.amounts(ARGV[6]), {}, false
for name, amount in pairs(cost) do
  left[name] = math.max(0, amount - (before[name] or 0))
  units[name] = math.min(units[name] or 0, left[name])
  gives = gives or units[name] > 0
  sums[#sums + 1] = name .. '=' .. string.format('%.0f', amount - left[name] + units[name])
end
local sum = is_plain and string.match(sums[1], '%d+$') or table.concat(sums, ',')
if not gives then
  return is_plain and {ARGV[1], 1} or {ARGV[1], 1, sum}
end
local number = tonumber(ARGV[5])

-- True when the subject was reset after the charge. Numbers of one client tell, whatever the clock
-- does; of another client (their numbers lie far apart) the times.
local function forgotten(reset)
  -- None, or only how long one must be remembered.
  if not reset or reset == '0:0' then
    return false
  end
  local at, by = string.match(reset, '^(%d+):(%d+)$')
  if math.abs(number - by) < 1099511627776 then
    return number <= tonumber(by)
  end
  return receipt_at <= tonumber(at)
end

local longest = lifetime(math.max(0, tonumber(ARGV[4]) - now))
local subjects, k, a = {}, 2, 7
while k <= #KEYS do
  local subject = {key = KEYS[k], count = tonumber(ARGV[a]), span = tonumber(ARGV[a + 1]), logs = {},
    charged = {}, most = {}, is_carried = false}
  for i = 1, subject.count do
    subject.logs[i] = KEYS[k + 1 + i]
    local letter, at, till, most, edges =
      string.match(ARGV[a + 1 + i], '^(%l)(%d+):(%d+):(%d+)@?([%d,]*)$')
    subject.charged[i] = {letter = letter, at = tonumber(at), till = tonumber(till), edges = edges}
    subject.most[i] = tonumber(most)
  end
  local wrong
  subject.held, wrong, subject.has_state = load(subject.key, subject.logs, subject.count)
  if wrong then
    return redis.error_reply(wrong)
  end
  for i = 1, subject.count do
    local limit, brought = subject.held[i], {}
    for number in string.gmatch(subject.charged[i].edges, '%d+') do
      brought[#brought + 1] = tonumber(number)
    end
    if limit and limit.code == 'k' and limit.numbers[2] == brought[1]
        and limit.numbers[3] == brought[2] then
      if now < brought[3] * 1000000 or now >= brought[6] * 1000000 then
        return {ARGV[1], 'windows', now}
      end
      for n = 3, 6 do
        limit.numbers[n + 1] = brought[n]
      end
      ready(limit)
    end
  end
  if subject.held.held then
    subject.holds, wrong = read_holds(subject.key)
    if wrong then
      return redis.error_reply('TOLLGATE ' .. wrong)
    end
    for i = 1, subject.count do
      -- A log without events beside others has lost its key.
      if not subject.held[i] then
        return redis.error_reply('TOLLGATE the state is damaged: it is of another number of limits')
      end
    end
    subject.limits, subject.was_held = subject.held, true
    -- The holds are of the count as it was written, whatever it was charged under.
    subject.most = most_as_written(subject.held, subject.most)
    subject.span = span_of(subject.held)
  end
  subject.forgotten = forgotten(redis.call('GET', KEYS[k + 1]))
  subjects[#subjects + 1] = subject
  k, a = k + 2 + subject.count, a + 2 + subject.count
end
-- Nothing is changed before all counts are known to be sound, nor at all for a receipt from before a
-- reset.
for _, subject in ipairs(subjects) do
  subject.credit = {}
  if subject.holds and not subject.forgotten then
    end_due(subject)
    -- Credits get back what they paid a part of, as long as one of the limits could.
    local could = {}
    for i, charged in ipairs(subject.charged) do
      local limit = subject.held[i]
      if counts_units(limit) then
        local name = limit.unit or 'requests'
        subject.credit[name] = credit.of(subject.holds, limit)
        could[name] = could[name] or charged.at == paid_by_credits and limit.strategy == charged.letter
          and now < charged.till
      end
    end
    for name, amount in pairs(units) do
      if could[name] then
        credit.back(subject.holds, name, amount)
      end
    end
  end
end
local reply = {ARGV[1], 0, is_plain and left.requests - units.requests or sum}
if marked then
  redis.call('SET', KEYS[1], sum, 'PX', longest)
end
for _, subject in ipairs(subjects) do
  for i = 1, subject.count do
    local limit, charged, given = subject.held[i], subject.charged[i], 0
    if limit and (limit.words or limit.log) and limit.strategy == charged.letter
        and not subject.forgotten then
      repair(limit)
      local name = limit.unit or 'requests'
      local kept = subject.holds and kept_of(subject, limit) or 0
      local before, reset = judge(limit)
      before = math.max(0, before + (counts_units(limit) and subject.credit[name] or 0) - kept)
      -- A count that is free by itself keeps its times: under a clock that is behind it counts
      -- again.
      if reset > 0 then
        -- As long as the mark lies, which nobody makes longer when the numbers change.
        if now < charged.till and charged.at ~= paid_by_credits and (units[name] or 0) > 0 then
          refund(limit, charged.at, left[name], units[name])
        end
        settle(limit)
      end
      -- Without its newest count a window may look at an earlier time, where older ones count again.
      local given_before = subject.holds and credit.of(subject.holds, limit) or 0
      given = math.max(0, math.max(0, judge(limit) + given_before - kept) - before)
      limit.changed, subject.changed = true, true
    end
    reply[#reply + 1] = given
    if not marked then
      -- The units that remain beside open holds, and how long until all is free; a fresh count has
      -- no holds.
      local remaining, reset, _ = -1, 0
      if limit and (limit.words or limit.log) and limit.strategy == charged.letter then
        if subject.holds then
          remaining, _, reset = judge_beside(subject, i, 1)
          reset = reset_of(subject, i, reset)
        else
          remaining, reset = judge(limit)
        end
      end
      reply[#reply + 1] = remaining
      reply[#reply + 1] = reset
    end
  end
  if subject.holds and not subject.forgotten then
    for i = 1, subject.count do
      subject.held[i].changed = true
    end
    write_count(subject)
  elseif subject.changed then
    write(subject.key, subject.logs, subject.held, subject.count, subject.has_state)
  end
end
return reply
