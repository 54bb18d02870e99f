if fresh > 0 then
  fresh = undelivered(fresh)
end
there = #back + fresh
granted = there
if there > 0 then
  local keys = {unpack(KEYS, $AFTER)}
  local function ask(cost)
    local is = rate(keys, {string.format('%.0f', cost), '0'$GIVEN})
    if is.err then
      return nil, is
    end
    local longest = 0
    for place = 5, 2 + 3 * $LIMITS, 3 do
      if is[place] < 0 then
        longest = -1
      elseif longest >= 0 then
        longest = math.max(longest, is[place])
      end
    end
    return is[2], longest
  end
  granted, wait = ask(there)
  if not granted then
    settle({})
    return wait
  end
  if granted < there then
    -- Nothing is left, so this gives the time when one more may go; unless it goes now.
    local one
    one, wait = ask(1)
    granted = granted + one
    if one > 0 then
      wait = -1
    end
  end
end
