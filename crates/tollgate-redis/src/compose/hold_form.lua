-- How the holds of a count are written: a sorted set of ids by their ends, and their sums. An id
-- has 16 bytes, and the first is its kind; a cost above 1 follows it in 6 bytes. Where it has other
-- units than requests, they follow as text.

-- The most holds that are open on one count, and of those the most whose ends charge: all that are
-- due are charged before anything else is answered.
local most_holds, most_charging = 100000, 1000

-- In place of the time of a charge that credits paid a part of: no limit recorded it.
local paid_by_credits = 9007199254740991

-- Beyond this a clock has stepped back.
local skew = 1000000

-- The sums: the version, how many holds are open, their units, those that their ends charge, their
-- slots, the last fencing number, the latest time that was seen, the first end and the last; and how
-- many ends charge, where one does. Other units than requests follow as text, each with what is kept
-- of it and what ends charge. The version is 1, with 1 more while named holds are open, and 2
-- more where ends charge, and 4 more where the count has a credit: an earlier script would misread
-- each. Credits follow the units behind `+`: `ID:UNIT=LEFT/GIVEN@END`, joined by commas, the first to
-- end first.
local sums_form = '>I1I4I7I7I4I7I7I7I7'

-- The list of credits in a text. Nil for one that is damaged.
local function read_credits(text)
  local list = {}
  for each in string.gmatch(text, '[^,]+') do
    local id, unit, left, given, stop =
      string.match(each, '^(6b%x+):([%l%d_]+)=(%d+)/(%d+)@(%d+)$')
    if not id or #id ~= 32 then
      return nil
    end
    list[#list + 1] = {id = id, unit = unit, left = tonumber(left), given = tonumber(given),
      stop = tonumber(stop)}
  end
  return list
end

-- The numbers after the version, which is odd and small unless holds may be named and there may be
-- credits. Nil for a text that no script of this version has written.
local function read_sums(v, may_be_more)
  local version = string.byte(v) or 0
  local has_chargers = math.floor((version - 1) / 2) % 2 == 1
  local size = has_chargers and 53 or 51
  if version < 1 or version > 8 or not may_be_more and (version % 2 == 0 or version > 4)
      or #v < size then
    return nil
  end
  local by_units, by_charging
  local units, given = string.match(string.sub(v, size + 1), '^([%l%d_=/,]*)%+?([%l%d_=/,:@]*)$')
  local credits = given and read_credits(given)
  if not credits or version > 4 ~= (#credits > 0) then
    return nil
  end
  if units ~= '' then
    by_units, by_charging = {}, {}
    for each in string.gmatch(units, '[^,]+') do
      local name, kept, charged = string.match(each, '^([%l%d_]+)=(%d+)/(%d+)$')
      if not name then
        return nil
      end
      by_units[name], by_charging[name] = tonumber(kept), tonumber(charged)
    end
  end
  local _, open, kept, charging, slots, fence, seen, first, last, from =
    struct.unpack(sums_form, v)
  local chargers = has_chargers and (struct.unpack('>I2', v, from)) or nil
  return open, kept, charging, slots, fence, seen, first, last, chargers, by_units, by_charging,
    credits
end

-- `others` has the units but requests, and the credits, as they are written.
local function sums_of(is_named, chargers, others, ...)
  local version, more = is_named and 2 or 1, ''
  if chargers > 0 then
    version, more = version + 2, struct.pack('>I2', chargers)
  end
  if string.find(others, '+', 1, true) then
    version = version + 4
  end
  return struct.pack(sums_form, version, ...) .. more .. others
end

-- The record of a hold without a name that was settled: the charge and, behind a dot, until when.
-- Earlier scripts read the number before the dot.
local function mark_of_settled(actual, till)
  return (tonumber(actual) and string.format('%.0f', actual) or actual) .. string.format('.%.0f', till)
end

-- The functions about units, in one table, since a script has at most 200 local names.
local unit = {}

-- The amounts of a cost by unit: a number of requests, or a text such as `requests=1,tokens=800`. An
-- adjustment may have negative ones.
function unit.amounts(text)
  local by = {requests = tonumber(text)}
  for name, amount in string.gmatch(text, '([%l%d_]+)=(-?%d+)') do
    by[name] = tonumber(amount)
  end
  return by
end

-- A hold of the sorted set: the requests that it keeps and the other units, and those that its end
-- charges. The letter of a named one is large.
local function hold_of(member, score)
  local kind = string.lower(string.sub(member, 1, 1))
  local cost, others = 1, nil
  if #member >= 22 then
    cost = struct.unpack('>I6', member, 17)
  end
  local hold = {member = member, stop = tonumber(score), units = cost, charging = 0, slots = 1}
  if #member > 22 then
    others = unit.amounts(string.sub(member, 23))
    hold.slots, others.slots = others.slots or 1, nil
    hold.by_units = others
  end
  if kind == 'a' then
    hold.units, hold.slots, hold.by_units = 0, others and hold.slots or cost, nil
  elseif kind == 'c' then
    hold.charging, hold.is_charging, hold.by_charging = cost, true, others
  end
  return hold
end

-- The member of a hold, from its id in hexadecimal digits and its cost.
local function member_of(id, cost)
  local function quarter(from)
    return tonumber(string.sub(id, from, from + 7), 16)
  end
  local member = struct.pack('>I4I4I4I4', quarter(1), quarter(9), quarter(17), quarter(25))
  local plain = tonumber(cost)
  if not plain then
    local requests, others = string.match(cost, '^requests=(%d+),(.*)$')
    member = member .. struct.pack('>I6', requests or 0) .. (others or cost)
  elseif plain > 1 then
    member = member .. struct.pack('>I6', plain)
  end
  return member
end
