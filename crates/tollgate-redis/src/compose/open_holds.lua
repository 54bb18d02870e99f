-- The open holds of a count, and nothing is changed. KEYS: the state. ARGV: the nonce, how many holds
-- are answered at most. The reply has how many are open, by how much later than now the ends are
-- written, the time by which they are judged, and of each hold the member, its end, and how long before
-- that it was placed, or 0 where only its id may say it; the first to end first. Credits of which
-- anything is left follow.
local key, open, back, rows = KEYS[1] .. '@', 0, 0, {}
local at = now
local sums = redis.call('GET', key .. 'sums')
local count, _, _, _, _, seen, _, _, _, _, _, credits = read_sums(sums or '', 2)
if count and (count > 0 or #credits > 0) then
  at = math.max(now, seen)
  if seen - now > skew then
    at, back = now, seen - now
  end
  local till = string.format('%.0f', at + back)
  local due = #redis.call('ZRANGEBYSCORE', key, '-inf', till)
  open = redis.call('ZCARD', key) - due
  local list = redis.call('ZRANGE', key, due, due + ARGV[2] - 1, 'WITHSCORES')
  for i = 1, #list, 2 do
    local r = #rows
    rows[r + 1], rows[r + 2] = list[i], list[i + 1]
    rows[r + 3] = span_of(KEYS[1], list[i]) or 0
  end
  for _, each in ipairs(credits) do
    if each.left > 0 and each.stop - back > at then
      local r, cost = #rows, each.unit .. '=' .. string.format('%.0f', each.left)
      cost = each.unit == 'requests' and each.left or cost
      rows[r + 1], rows[r + 2], rows[r + 3] = member_of(each.id, cost),
        string.format('%.0f', each.stop), 0
      open = open + 1
    end
  end
end
return {ARGV[1], open, back, at, rows}
