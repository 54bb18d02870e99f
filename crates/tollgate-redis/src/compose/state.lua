local shapes

-- The most units that can be used of a window or a log whose state does not say it.
local function usual_most(numbers)
  return math.min(2 * numbers[1], 1099511627776)
end

-- Whether a limit is a window or a log, whose numbers do not include the debt.
local function hides_most(limit)
  return string.find('fksl', limit.code, 1, true) ~= nil
end

-- Reads what a state or the head of a log says of itself: the version, then for each limit two
-- letters (strategy and step), how many integers it has, and its numbers. Answers a list of limits
-- and where the integers begin; or nothing and the problem.
local function read_tag(v)
  -- An `h` at the end says that holds of the count are open. Version 2 has one, or a limit with a
  -- debt; version 1 had it, too, before there was a version for it. In version 3 it is followed by
  -- the most units that can be used of each window and log.
  local version, body, held, mosts, from = string.match(v, '^(%d+)([^|]-)(h?)([%d,]*)|()')
  if not version then
    return nil, 'the key holds something that is not a state of Tollgate'
  end
  local says_most = held == 'h' and mosts ~= ''
  local is_new = version == '2' and (held == 'h' or string.find(body, '[ugt][gi]%d+:'))
    or version == '3' and says_most
  if version ~= '1' and not is_new then
    return nil, 'the state was written by a newer version: use that one, or reset the subject with it'
  end
  -- By strategy and step: how many numbers, how many integers (a row has two more than its third
  -- number), and which numbers and which integers there can be.
  shapes = shapes or {$SHAPES}
  local limits, size = {held = held == 'h', text = '1' .. body}, 0
  for part, step, count, list in string.gmatch(body, '((%l%l)(%d+):([%d,]+);)') do
    local shape, numbers, most = shapes[step], {}, 0
    if not shape then
      return nil, '$UNKNOWN'
    end
    for number in string.gmatch(list, '%d+') do
      numbers[#numbers + 1] = tonumber(number)
      most = math.max(most, tonumber(number))
    end
    count = tonumber(count)
    -- Before debts, no more than the burst could be used.
    if (step == 'ug' or step == 'gg' or step == 'tg' or step == 'ti') and #numbers == 3 then
      numbers[4], list = numbers[3], list .. ','
    end
    -- As many commas as there are between so many numbers.
    local _, commas = string.gsub(list, ',', '')
    if #numbers ~= shape[1] or commas ~= #numbers - 1 or numbers[1] < 1 or numbers[2] < 1
        or most > $MOST or count ~= (shape[2] or 2 + numbers[3]) or not shape[3](numbers) then
      return nil, 'the state is damaged: it holds numbers that no count has'
    end
    size = size + #part
    limits[#limits + 1] = {strategy = string.sub(step, 1, 1), code = string.sub(step, 2),
      count = count, numbers = numbers, sound = shape[4]}
  end
  local each = string.gmatch(mosts, '%d+')
  for _, limit in ipairs(limits) do
    if says_most and hides_most(limit) then
      limit.most = tonumber(each() or 0)
      if limit.most < limit.numbers[1] or limit.most > 1099511627776 then
        return nil, 'the state is damaged: it holds numbers that no count has'
      end
    end
  end
  if size ~= #body or mosts ~= '' and version ~= '3' or each() then
    return nil, 'the state is damaged: it cannot be read'
  end
  return limits, from
end

-- Reads the integers of a state: pairs first, then rows. Its description of itself may have been
-- read.
local function read_state(v, limits, from)
  if not limits then
    limits, from = read_tag(v)
  end
  if not limits then
    return nil, from
  end
  local size = from - 1
  for _, limit in ipairs(limits) do
    if limit.count ~= 0 then
      size = size + 1 + 6 * limit.count
    end
  end
  if size ~= #v then
    return nil, 'the state is damaged: it does not have the length that it says'
  end
  for pass = 1, 2 do
    for _, limit in ipairs(limits) do
      if limit.count == 0 and limit.strategy ~= 'l' then
        limit.words = {}
      elseif limit.count ~= 0 and (limit.count == 2) == (pass == 1) then
        limit.words = {}
        local format = '>I7'
        for i = 1, limit.count do
          limit.words[i], from = struct.unpack(format, v, from)
          format = '>I6'
        end
        -- Beyond this a double is not exact.
        if limit.words[1] >= 9007199254740992 or not limit.sound(limit.words, limit.numbers) then
          return nil, 'the state is damaged: it holds numbers that no count has'
        end
      end
    end
  end
  return limits
end

-- Whether a limit has the numbers of another. The edges of a calendar, which come last, are those
-- around the time of whoever wrote it.
local function same_numbers(a, b, last)
  if a == b then
    return true
  end
  for i = 1, last or math.max(#a, #b) do
    if a[i] ~= b[i] then
      return false
    end
  end
  return true
end

-- The units that are missing in one bucket of tokens, to be charged to the other kind: those not
-- free under a burst as large as the maximum that can be missing.
local function consumed(step, words, numbers, now)
  local n, period, _, most = unpack(numbers)
  local a, b, at = step.view(words[1], words[2], now, step.numbers(unpack(numbers)))
  return most - step.judge(a, b, at, now, 1, step.numbers(n, period, most, most))
end

-- The words of a limit under its present numbers: 1 when they were carried over, 2 when it starts
-- fresh, 0 when the numbers are the same.
local function carry(old, is, steps, now)
  local fresh = {}
  for i = 1, is.count do
    fresh[i] = 0
  end
  if old.strategy ~= is.strategy or not old.words then
    return 2, fresh
  end
  local step, was = steps[is.code], steps[old.code]
  local last = is.code == 'k' and 3 or nil
  if old.code == is.code and same_numbers(old.numbers, is.numbers, last) then
    return 0, old.words
  end
  if is.count == 0 then
    return 1, fresh
  end
  if is.code == 'k' and old.code == 'k' and old.numbers[2] == is.numbers[2] then
    -- The window counts until its own end, whatever its zone and edge are now.
    return 1, old.words
  end
  if is.count ~= 2 then
    return 1, step.migrate(old.words, now, old.numbers, step.numbers(unpack(is.numbers)))
  end
  if old.code == is.code then
    local a, b = was.view(old.words[1], old.words[2], now, was.numbers(unpack(old.numbers)))
    old.numbers.words = old.words
    a, b = step.migrate(a, b, now, old.numbers, step.numbers(unpack(is.numbers)))
    if a then
      return 1, {a, b}
    end
  end
  if old.strategy == 'f' then
    -- From a duration to a calendar, or back.
    local _, count, at = was.view(old.words[1], old.words[2], now, was.numbers(unpack(old.numbers)))
    return 1, {step.view(0, 0, at, step.numbers(unpack(is.numbers))), count}
  end
  local units = math.min(consumed(was, old.words, old.numbers, now), is.numbers[4])
  if units <= 0 then
    return 1, fresh
  end
  local a, b, at = step.view(now, 0, now, step.numbers(unpack(is.numbers)))
  a, b = step.charge(a, b, at, now, units, step.numbers(unpack(is.numbers)))
  return 1, {a, b}
end
