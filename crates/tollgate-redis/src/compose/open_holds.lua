-- The open holds of a count, and nothing is changed. KEYS: the state. ARGV: the nonce, how many holds
-- are answered at most. The reply has how many are open, by how much later than now the ends are
-- written, and the members with their ends, the first to end first.
local key, open, back, rows = KEYS[1] .. '@', 0, 0, {}
local sums = redis.call('GET', key .. 'sums')
local count, _, _, _, _, seen = read_sums(sums or '', 2)
if count and count > 0 then
  local at = math.max(now, seen)
  if seen - now > skew then
    at, back = now, seen - now
  end
  local till = string.format('%.0f', at + back)
  local due = #redis.call('ZRANGEBYSCORE', key, '-inf', till)
  open = redis.call('ZCARD', key) - due
  rows = redis.call('ZRANGE', key, due, due + ARGV[2] - 1, 'WITHSCORES')
end
return {ARGV[1], open, back, rows}
