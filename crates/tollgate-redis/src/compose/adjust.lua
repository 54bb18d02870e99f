-- KEYS: the state, and a log for each limit.
-- ARGV: the nonce, the units to give back or, negative, to take, what the limits are, and 1 when
-- they have a state beside their logs.
local is = read_tag(ARGV[3])
local logs = {}
for i = 1, #is do
  logs[i] = KEYS[1 + i]
end
local before_ms = longest_pttl(KEYS)
local held, wrong = load(KEYS[1], logs, #is)
if wrong then
  return redis.error_reply(wrong)
end
local delta, reply = tonumber(ARGV[2]), {ARGV[1]}
for i, limit in ipairs(is) do
  local old = held[i]
  if limit.strategy == 'l' then
    limit.log = new_log()
    if old and old.log then
      repair(old)
      limit.log = old.log
    end
  else
    local _
    _, limit.words = carry(old or {}, limit, steps, now)
    if old and old.log then
      redis.call('DEL', logs[i])
    end
  end
  ready(limit)
  repair(limit)
  local before, reset = judge(limit)
  if delta < 0 and before > 0 then
    charge(limit, math.min(-delta, before))
  elseif delta > 0 and reset > 0 then
    grant(limit, delta)
    settle(limit)
  end
  reply[1 + i] = judge(limit) - before
  limit.changed = true
end
write(KEYS[1], logs, is, #is, ARGV[4] == '1')
-- What is free now, or counted under other numbers, was charged before: it could be given back as
-- long as its state would have lain.
if before_ms > longest_pttl(KEYS) then
  outlive(KEYS[1] .. '!reset', before_ms)
end
return reply
