-- How the holds of a count are written: a sorted set of ids by their ends, and their sums. An id
-- has 16 bytes, and the first is its kind; a cost above 1 follows it.

-- The most holds that are open on one count, and of those the most whose ends charge: all that are
-- due are charged before anything else is answered.
local most_holds, most_charging = 100000, 1000

-- Beyond this a clock has stepped back.
local skew = 1000000

-- The sums: the version, how many holds are open, their units, those that their ends charge, their
-- slots, the last fencing number, the latest time that was seen, the first end and the last; and how
-- many ends charge, where one does. The version is 1, with 1 more while named holds are open, and 2
-- more where ends charge: an earlier script would misread either.
local sums_form = '>I1I4I7I7I4I7I7I7I7'

-- The numbers after the version, which is odd unless holds may be named. Nil for a text that no
-- script of this version has written.
local function read_sums(v, may_be_named)
  local version = string.byte(v) or 0
  if version < 1 or version > 4 or not may_be_named and version % 2 == 0
      or #v ~= (version > 2 and 53 or 51) then
    return nil
  end
  local _, open, units, charging, slots, fence, seen, first, last, from =
    struct.unpack(sums_form, v)
  local chargers = version > 2 and (struct.unpack('>I2', v, from)) or nil
  return open, units, charging, slots, fence, seen, first, last, chargers
end

local function sums_of(is_named, chargers, ...)
  local version, more = is_named and 2 or 1, ''
  if chargers > 0 then
    version, more = version + 2, struct.pack('>I2', chargers)
  end
  return struct.pack(sums_form, version, ...) .. more
end

-- The record of a hold without a name that was settled: the charge and, behind a dot, until when.
-- Earlier scripts read the number before the dot.
local function mark_of_settled(actual, till)
  return string.format('%.0f.%.0f', actual, till)
end

-- A hold of the sorted set: the units that it keeps, and the charge of its end. The letter of a
-- named one is large.
local function hold_of(member, score)
  local kind = string.lower(string.sub(member, 1, 1))
  local cost = 1
  if #member == 22 then
    cost = struct.unpack('>I6', member, 17)
  end
  local hold = {member = member, stop = tonumber(score), units = cost, charging = 0, slots = 1}
  if kind == 'a' then
    hold.units, hold.slots = 0, cost
  elseif kind == 'c' then
    hold.charging = cost
  end
  return hold
end

-- The member of a hold, from its id in hexadecimal digits and its cost.
local function member_of(id, cost)
  local function quarter(from)
    return tonumber(string.sub(id, from, from + 7), 16)
  end
  local member = struct.pack('>I4I4I4I4', quarter(1), quarter(9), quarter(17), quarter(25))
  if cost > 1 then
    member = member .. struct.pack('>I6', cost)
  end
  return member
end
