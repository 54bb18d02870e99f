-- The numbers of the limits are words of each call: $WORDS. From them come the arguments
-- that the rest of this script takes.
if #KEYS ~= $KEYS or #ARGV ~= $ARGS then
  return redis.error_reply('TOLLGATE this script takes $KEYS keys and $ARGS arguments: $WORDS')
end
local ARGV, wrong = (function(given)
  local wrong
  local function refuse(what)
    wrong = wrong or 'TOLLGATE ' .. what
  end
  -- A whole number from 1 up, in units that are `scale` of what is counted in.
  local function whole(word, name, most, scale)
    local number = string.match(tostring(word), '^[1-9]%d*$') and tonumber(word) * scale
    if number and number <= most then
      return number
    end
    refuse(name .. ' must be a whole number from 1 to ' .. string.format('%.0f', most / scale))
    return scale
  end
  local function units(word, name)
    return whole(word, name, 1099511627776, 1)
  end
  local function time(word, scale)
    return whole(word, 'the time of a limit', 31622400000000, scale)
  end
$STEPS
  local n, d, burst = {}, {}, {}
$READ
  local words = {$FIRST}
  -- The arguments of a subject, whose limits are in the order of their states.
  local function subject(limits)
    local all = '1'
    for _, limit in ipairs(limits) do
      local numbers = {}
      for i, number in ipairs(limit[3]) do
        numbers[i] = string.format('%.0f', number)
      end
      limit.part = limit[1] .. table.concat(numbers, ',') .. ';'
      all = all .. limit.part
    end
    words[#words + 1] = all .. '|'
    for _, limit in ipairs(limits) do
      words[#words + 1] = '1' .. limit.part .. '|'
      words[#words + 1] = limit[2]
      for _, number in ipairs(limit[3]) do
        words[#words + 1] = number
      end
      for _, number in ipairs({limit[4](unpack(limit[3]))}) do
        words[#words + 1] = number
      end
    end
  end
$SUBJECTS
  return words, wrong
end)(ARGV)
if wrong then
  return redis.error_reply(wrong)
end
