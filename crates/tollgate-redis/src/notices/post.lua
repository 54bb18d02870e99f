-- KEYS: the notices. ARGV: the nonce, the name, the text, how long it lasts in microseconds, how
-- many there may be, and 1 where one of this name that is there stays.
local lacks = refusal()
if lacks then
  return lacks
end
local own = ARGV[6] == '1' and redis.call('HGET', KEYS[1], ARGV[2])
if own and tonumber(string.match(own, '^(%d+):') or '0') > now then
  return {ARGV[1], 1}
end
local version = tonumber(redis.call('HGET', KEYS[1], '') or '0')
local until_us = now + tonumber(ARGV[4])
local last, others = until_us, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if all[i] ~= '' and all[i] ~= ARGV[2] then
    local ends = tonumber(string.match(all[i + 1], '^(%d+):') or '0')
    if ends <= now then
      redis.call('HDEL', KEYS[1], all[i])
    else
      last, others = math.max(last, ends), others + 1
    end
  end
end
if others >= tonumber(ARGV[5]) then
  return {ARGV[1], 0}
end
version = string.format('%.0f', math.max(version + 1, now))
local value = string.format('%.0f:', until_us) .. ARGV[3]
redis.call('HSET', KEYS[1], '', version, ARGV[2], value)
redis.call('PEXPIRE', KEYS[1], lifetime(last - now))
return {ARGV[1], 1}
