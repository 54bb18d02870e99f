-- The operations that are rare enough to be written for any limits: they work on a list of limits
-- that the state itself names.

-- The cost for reading the remaining units, which do not depend on it.
local any = 1

-- The answer to a state that cannot be used. The scripts of all steps know every step.
local function refused(wrong)
  if string.sub(wrong, -11) == 'other steps' then
    return {ARGV[1], -4}
  end
  -- The caller brings others, around the time of the server. A word, since an adjustment answers
  -- with any number.
  if wrong == 'other windows' then
    return {ARGV[1], 'windows', now}
  end
  return redis.error_reply(wrong)
end

-- Whether a limit counts the units of checks: it counts neither slots nor denials.
local function counts_units(limit)
  return steps[limit.code].counts == 'units'
end

-- A limit as it counts now: the remaining units, how long until all is free, its view; and last how
-- long until a cost is admitted.
local function judge(limit, cost)
  local step, n = limit.step, limit.args
  cost = cost or any
  if step.counts == 'slots' then
    -- All its slots: those that holds take are counted beside.
    return limit.numbers[1], 0, false, nil, nil, nil, nil, cost > limit.numbers[1] and -1 or 0
  end
  if limit.log then
    local log = limit.log
    local newest = #log.times
    local first, before, used, at, back = log_view(log.event, log.base, log.times[1],
      log.times[newest], log.totals[newest], now, unpack(n))
    local remaining, wait, reset = log_judge(log.event, first, before, used, at, back,
      log.times[newest], now, cost, unpack(n))
    return remaining, reset, back, first, used, nil, nil, wait
  end
  if #limit.words == 2 then
    local a, b, at, back = step.view(limit.words[1], limit.words[2], now, unpack(n))
    local remaining, wait, reset = step.judge(a, b, at, now, cost, unpack(n))
    return remaining, reset, back, a, b, at, nil, wait
  end
  local x, y, z, at, back = step.view(limit.words, now, unpack(n))
  local remaining, wait, reset = step.judge(limit.words, x, y, z, at, back, now, cost, unpack(n))
  return remaining, reset, back, x, y, z, at, wait
end

-- Cuts a state from the future to its possible maximum. Answers whether it was one.
local function repair(limit)
  local _, _, back, x, y, z = judge(limit)
  if not back then
    return false
  end
  if limit.log then
    limit.log.base, limit.log.times, limit.log.totals = 0, {now}, {y}
  elseif #limit.words == 2 then
    limit.words = {x, y}
  else
    limit.step.repair(limit.words, x, y, unpack(limit.args))
  end
  limit.reset = nil
  return true
end

-- Gives back `units` of a charge of which `left` were not given back before.
local function refund(limit, charged_at, left, units)
  if not counts_units(limit) then
    return
  end
  limit.reset = nil
  local _, _, _, x, y, z = judge(limit)
  if limit.log then
    log_refund(limit.log, x, charged_at, units)
  elseif #limit.words == 2 then
    local a, b = limit.step.refund(x, y, z, now, charged_at, left, units, unpack(limit.args))
    if a ~= x or b ~= y then
      limit.words = {a, b}
    end
  else
    limit.step.refund(limit.words, x, charged_at, units, unpack(limit.args))
  end
end

local function grant(limit, units)
  if not counts_units(limit) then
    return
  end
  limit.reset = nil
  local _, _, _, x, y, z = judge(limit)
  if limit.log then
    log_grant(limit.log, x, units)
  elseif #limit.words == 2 then
    limit.words = {limit.step.grant(x, y, z, now, units, unpack(limit.args))}
  else
    limit.step.grant(limit.words, x, units, unpack(limit.args))
  end
end

local function charge(limit, units)
  if not counts_units(limit) then
    return
  end
  limit.reset = nil
  local _, _, back, x, y, z, at = judge(limit)
  if limit.log then
    local log = limit.log
    -- Units that no longer count go, as in a check.
    if x then
      for _ = 2, x do
        log.base = table.remove(log.totals, 1)
        table.remove(log.times, 1)
      end
    end
    local newest = #log.times
    at = math.max(now, log.times[newest] or now)
    local _, how, sum = log_charge(x, y, at, back, log.times[newest], log.totals[newest], now,
      units, unpack(limit.args))
    if how == 'anew' then
      log.base, log.times, log.totals = 0, {at}, {sum}
    elseif how == 'amend' then
      log.totals[newest] = sum
    else
      log.times[newest + 1], log.totals[newest + 1] = at, sum
    end
  elseif #limit.words == 2 then
    local a, b = limit.step.charge(x, y, z, now, units, unpack(limit.args))
    limit.words = {a, b}
  else
    limit.step.charge(limit.words, x, y, z, at, back, now, units, unpack(limit.args))
  end
end

-- Counts a denial of other limits of a count for its bans. While a ban runs, nothing is counted.
-- Answers whether it was. `waits` says how long each limit denies.
local function deny(limits, waits)
  local bans, denied = {}, false
  for i, limit in ipairs(limits) do
    if not limit.step.deny then
      denied = denied or waits[i] ~= 0
    elseif waits[i] ~= 0 then
      return false
    else
      bans[#bans + 1] = limit
    end
  end
  if not denied or #bans == 0 then
    return false
  end
  for _, ban in ipairs(bans) do
    local _, _, _, at, counted = judge(ban)
    ban.words, ban.reset = {ban.step.deny(at, counted, now, unpack(ban.args))}, nil
  end
  return true
end

-- A log without events.
local function new_log()
  local log = {base = 0, times = {}, totals = {}}
  log.event = function(i)
    return log.times[i], log.totals[i]
  end
  return log
end

-- The log that lies at a key, with its limit; nothing when there is none.
local function read_log(key)
  local rows = redis.call('LRANGE', key, 0, -1)
  if #rows == 0 then
    return nil
  end
  local limits, from = read_tag(rows[1])
  if not limits then
    return nil, from
  end
  if #limits ~= 1 or limits[1].strategy ~= 'l' or #rows[1] ~= from + 5
      or #rows == 1 and not limits.held then
    return nil, 'the key holds something that is not a state of Tollgate'
  end
  local log = new_log()
  log.base = struct.unpack('>I6', rows[1], from)
  local before = 0
  for i = 2, #rows do
    if #rows[i] ~= 13 then
      return nil, 'the state is damaged: it does not have the length that it says'
    end
    log.times[i - 1], log.totals[i - 1] = struct.unpack('>I7I6', rows[i])
    if log.times[i - 1] < before or log.times[i - 1] >= 9007199254740992 then
      return nil, 'the state is damaged: it holds numbers that no count has'
    end
    before = log.times[i - 1]
  end
  limits[1].log, limits[1].is_held = log, limits.held
  return limits[1]
end

-- Whether more is used of a limit than its burst.
local function owes(limit)
  local step = limit.step
  return step and step.owes and step.owes(limit.words[1], limit.words[2], now, unpack(limit.args))
end

-- How a state describes itself. While holds are open, or more is used than a burst, it has a
-- separate version, which scripts that know no holds or no debts refuse. The debt of a window or a
-- log matters to holds alone. The state says it where it is not the usual.
local function tag_of(limits)
  local version, bar = '1', '|'
  if limits.held then
    version, bar = '2', 'h|'
  end
  local mosts, is_usual = {}, true
  for _, limit in ipairs(limits) do
    if owes(limit) then
      version = '2'
    end
    if limits.held and hides_most(limit) then
      local usual = usual_most(limit.numbers)
      mosts[#mosts + 1] = string.format('%.0f', limit.most or usual)
      is_usual = is_usual and (limit.most or usual) == usual
    end
  end
  if not is_usual then
    version, bar = '3', 'h' .. table.concat(mosts, ',') .. '|'
  end
  if limits.text then
    return version .. string.sub(limits.text, 2) .. bar
  end
  local parts = {version}
  for _, limit in ipairs(limits) do
    parts[#parts + 1] = limit.strategy .. limit.code .. string.format('%.0f', limit.count) .. ':'
    for i, number in ipairs(limit.numbers) do
      if i > 1 then
        parts[#parts + 1] = ','
      end
      parts[#parts + 1] = string.format('%.0f', number)
    end
    parts[#parts + 1] = ';'
  end
  return table.concat(parts) .. bar
end

-- How long what is written to a key lies. A state that a clock's step back left as it was lives at
-- least as long as before: once the clock has come back, it counts again.
local function lies_for(key, reset, is_behind)
  local milliseconds = lifetime(reset)
  if not is_behind then
    return milliseconds
  end
  return string.format('%.0f', math.max(tonumber(milliseconds), redis.call('PTTL', key)))
end

local function write_log(key, limit, reset, held)
  local lies = lies_for(key, reset, limit.is_behind)
  redis.call('DEL', key)
  local log = limit.log
  if #log.times == 0 and not held then
    return
  end
  redis.call('RPUSH', key, tag_of({limit, held = held}) .. struct.pack('>I6', log.base))
  local batch = {}
  for i = 1, #log.times do
    batch[#batch + 1] = struct.pack('>I7I6', log.times[i], log.totals[i])
    if #batch == 1000 or i == #log.times then
      redis.call('RPUSH', key, unpack(batch))
      batch = {}
    end
  end
  redis.call('PEXPIRE', key, lies)
end

-- How long until all of a limit is free.
local function reset_alone(limit)
  if not limit.reset then
    local _, reset, is_behind = judge(limit)
    limit.reset, limit.is_behind = reset, is_behind
  end
  return limit.reset
end

-- A count that is all free again remembers nothing.
local function settle(limit)
  if reset_alone(limit) > 0 then
    return
  end
  if limit.log then
    limit.log.times, limit.log.totals = {}, {}
  else
    for i = 1, limit.count do
      limit.words[i] = 0
    end
  end
end

-- Writes the logs that were changed, and the state where there is one: as long as something counts,
-- and for `least` microseconds where holds are open.
local function write(key, logs, limits, count, has_state, least)
  local most, something, integers, is_behind = least or 0, limits.held, {}, false
  for i = 1, count do
    local limit = limits[i]
    if limit and limit.log then
      local reset = reset_alone(limit)
      if limit.changed then
        write_log(logs[i], limit, math.max(reset, least or 0), limits.held)
      elseif limits.held then
        -- It names the holds, and lies as long as they do.
        local longest = math.max(reset, least)
        redis.call('PEXPIRE', logs[i], lies_for(logs[i], longest, limit.is_behind))
      end
      most, is_behind = math.max(most, reset), is_behind or limit.is_behind
      something = something or #limit.log.times > 0
    end
  end
  for pass = 1, 2 do
    for i = 1, count do
      local limit = limits[i]
      if limit and limit.words and limit.count > 0 and (limit.count == 2) == (pass == 1) then
        most = math.max(most, reset_alone(limit))
        is_behind = is_behind or limit.is_behind
        for j = 1, limit.count do
          something = something or limit.words[j] > 0
          integers[#integers + 1] = struct.pack(j == 1 and '>I7' or '>I6', limit.words[j])
        end
      end
    end
  end
  if has_state and something then
    redis.call('SET', key, tag_of(limits) .. table.concat(integers), 'PX',
      lies_for(key, most, is_behind))
  elseif has_state then
    redis.call('DEL', key)
  end
end

-- How long the last of some keys lies, in milliseconds.
local function longest_pttl(keys)
  local longest = 0
  for _, key in ipairs(keys) do
    longest = math.max(longest, redis.call('PTTL', key))
  end
  return longest
end

-- The record of the last reset. It is read before anything is written: something else at that key
-- is an error.
local function mark_of(key)
  return redis.call('GET', key .. '!reset') or '0:0'
end

-- A reset that comes is remembered for so long at least.
local function outlive(key, left, mark)
  if left > redis.call('PTTL', key) then
    redis.call('SET', key, mark, 'PX', left)
  end
end

-- Gives a limit the functions and the arguments of its step, or of one with the same numbers.
local function ready(limit, like)
  limit.step = steps[limit.code]
  limit.args = like and like.args or {limit.step.numbers(unpack(limit.numbers))}
end

-- The units that can be charged to a limit without a check, up to this maximum use. The step's form
-- of those numbers is kept: many ends may charge one after the other.
local function room(limit, most)
  if limit.room_for ~= most then
    local numbers = {unpack(limit.numbers)}
    numbers[limit.step.capacity] = most
    limit.room_for, limit.room_args = most, {limit.step.numbers(unpack(numbers))}
  end
  local args = limit.args
  limit.args = limit.room_args
  local left = judge(limit)
  limit.args = args
  return left
end

-- Makes a limit that counts from one that is asked for, with its counted units under its present or
-- other numbers. Answers what happened to the count: 0 the numbers are the same, 1 it was carried
-- over, 2 it starts fresh.
local function adopt(limit, old, is_new)
  local carried = 0
  if limit.strategy == 'l' then
    limit.log = new_log()
    if old and old.log then
      if not same_numbers(old.numbers, limit.numbers) then
        repair(old)
        carried = 1
      end
      limit.log = old.log
    elseif old and old.strategy ~= 'l' then
      carried = 2
    elseif old and not same_numbers(old.numbers, limit.numbers) then
      -- Its events are over, and with them its key.
      carried = 1
    end
  else
    carried, limit.words = carry(old or {}, limit, steps, now)
    if is_new then
      carried = 0
    end
    limit.stale = old and old.log
  end
  ready(limit, old and old.code == limit.code and old.numbers == limit.numbers and old)
  return carried
end

-- Reads what a state says of itself. Limits that are `known` already are not read again.
local function read_tag_like(v, known)
  local after = known and #known.text + 1 or 1
  local held = string.sub(v, after, after) == 'h'
  if held then
    after = after + 1
  end
  local version = string.sub(v, 1, 1)
  if not known or version ~= '1' and not (held and version == '2')
      or string.sub(v, 2, #known.text) ~= string.sub(known.text, 2)
      or string.sub(v, after, after) ~= '|' then
    return read_tag(v)
  end
  local limits = {held = held, text = known.text}
  for i, limit in ipairs(known) do
    limits[i] = {strategy = limit.strategy, code = limit.code, count = limit.count,
      numbers = limit.numbers, sound = limit.sound}
  end
  return limits, after + 1
end

-- Gives limits the units that their identities name, which end the key of their count; none where
-- that is requests.
function unit.name(key, limits)
  if not string.find(key, '/%l') then
    return
  end
  local i = 0
  for identity in string.gmatch(string.match(key, '^.*[}>]:?(.*)$'), '[^,]+') do
    i = i + 1
    if limits[i] then
      local name = string.match(identity, '/(%l[%l%d_]*)$')
      -- A calendar of requests ends with its period.
      local is_period = name and string.find(' day week month year ', ' ' .. name .. ' ', 1, true)
      limits[i].unit = not is_period and name or nil
    end
  end
end

-- The counts of a subject: its limits by their places, as they were written. A set of one log keeps
-- it at the key itself. The limits that are asked for need not be read again.
local function load(key, logs, count, asked)
  local held, has_state = {}, false
  local v = redis.pcall('GET', key)
  if type(v) == 'table' then
    if count > 1 or not string.match(v.err, 'WRONGTYPE') then
      return nil, v.err
    end
  elseif v then
    local limits, wrong = read_state(v, read_tag_like(v, asked))
    if not limits then
      return nil, 'TOLLGATE ' .. wrong
    end
    held, has_state = limits, true
    if #held ~= count then
      return nil, 'TOLLGATE the state is damaged: it is of another number of limits'
    end
  end
  for i = 1, count do
    if (not held[i] or held[i].strategy == 'l') and (count > 1 or type(v) == 'table') then
      local limit, wrong = read_log(logs[i])
      if wrong then
        return nil, 'TOLLGATE ' .. wrong
      end
      if limit then
        held[i], held.text = limit, nil
      end
      held.held = held.held or limit and limit.is_held
    end
    if held[i] then
      ready(held[i])
    end
  end
  unit.name(key, held)
  return held, nil, has_state
end
