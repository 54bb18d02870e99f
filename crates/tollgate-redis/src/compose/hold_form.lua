-- How the holds of a count are written: a sorted set of ids by their ends, and their sums. An id has
-- 16 bytes, of which the first is its kind; a cost above 1 follows it.

-- The most holds that are open on one count.
local most_holds = 100000

-- Beyond this a clock has stepped back.
local skew = 1000000

-- The sums: the version (2 while named holds are open, which an earlier script would misread), how many holds are open, their units, those that their ends charge, their
-- slots, the last fencing number, the latest time that was seen, the first end and the last.
local sums_form = '>I1I4I7I7I4I7I7I7I7'

-- The numbers after the version, which is 1 or up to `newest`. Nothing of what no script of this
-- version has written.
local function read_sums(v, newest)
  local version = string.byte(v)
  if #v == 51 and version >= 1 and version <= (newest or 1) then
    return select(2, struct.unpack(sums_form, v))
  end
end

local function sums_of(version, ...)
  return struct.pack(sums_form, version, ...)
end

-- A hold of the sorted set: what it keeps, and what its end charges. The letter of a named one is
-- large.
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
